//! AUTH command of the mail server (RFC 4954).

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncWrite};

use super::script::Stage;
use super::session::{COMMAND_LINE, Next, Session};

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    pub(super) fn mechanisms(&self) -> Vec<&'static str> {
        let (settings, token) = (&self.server.settings, self.server.token());
        let is_there = |mechanism: &&&str| match **mechanism {
            "XOAUTH2" => token.is_some(),
            _ => settings.login.is_some(),
        };
        settings.mechanisms.iter().filter(is_there).copied().collect()
    }

    pub(super) async fn auth(&mut self, rest: &str) -> io::Result<Next> {
        if let Some(next) = self.react(Stage::Auth) {
            return Ok(next);
        }
        if self.mechanisms().is_empty() {
            return Ok(self.reply_and_continue("502 5.5.1 authentication is not supported"));
        }
        if !self.greeted || self.logged_in || self.from.is_some() {
            return Ok(self.reply_and_continue("503 5.5.1 not now"));
        }
        let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
        let mechanism = mechanism.to_ascii_uppercase();
        self.logged_in = match mechanism.as_str() {
            offered if !self.mechanisms().contains(&offered) => {
                return Ok(self.reply_and_continue("504 5.5.4 unknown mechanism"));
            }
            "PLAIN" => {
                let answer = self.challenge(initial, "").await?;
                let mut parts = answer.split('\0').skip(1).map(str::to_owned);
                self.knows(&parts.next().unwrap_or_default(), &parts.next().unwrap_or_default())
            }
            "LOGIN" => {
                let user = self.challenge(initial, "Username:").await?;
                let password = self.challenge("", "Password:").await?;
                self.knows(&user, &password)
            }
            _ => self.xoauth2(initial).await?,
        };
        let verdict = if self.logged_in { "235 2.7.0 welcome" } else { "535 5.7.8 wrong user or password" };
        Ok(self.reply_and_continue(verdict))
    }

    fn knows(&self, user: &str, password: &str) -> bool {
        let login = self.server.settings.login.as_ref();
        login.is_some_and(|(known, secret)| known == user && secret == password)
    }

    /// Checks a token. If the token is invalid, the server first sends a challenge with the error, which the client
    /// must answer, and then refuses the login. Gmail does the same.
    async fn xoauth2(&mut self, initial: &str) -> io::Result<bool> {
        let answer = self.challenge(initial, "").await?;
        let expected = self.server.token();
        let is_right = expected
            .is_some_and(|(user, token)| answer == format!("user={user}\u{1}auth=Bearer {token}\u{1}\u{1}"));
        if !is_right {
            self.challenge("", r#"{"status":"401","schemes":"bearer"}"#).await?;
        }
        Ok(is_right)
    }

    /// Returns the decoded answer to a challenge. The answer is the `initial` response of the command; if that is
    /// empty, the server sends `prompt` and reads the answer. Returns an empty text if the answer cannot be decoded.
    async fn challenge(&mut self, initial: &str, prompt: &str) -> io::Result<String> {
        let encoded = if initial.is_empty() {
            self.wire.reply(&format!("334 {}", STANDARD.encode(prompt)));
            if self.wire.read_line(COMMAND_LINE).await?.is_err() {
                return Ok(String::new());
            }
            self.wire.last_line().to_vec()
        } else {
            initial.as_bytes().to_vec()
        };
        let decoded = STANDARD.decode(encoded).unwrap_or_default();
        Ok(String::from_utf8(decoded).unwrap_or_default())
    }
}
