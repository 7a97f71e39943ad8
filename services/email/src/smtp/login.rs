//! Login with AUTH (RFC 4954). We do not use the library's login, because it reports a refused XOAUTH2 login as a
//! broken connection.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lettre::transport::smtp::authentication::Mechanism as Offered;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ServerInfo;
use lettre::transport::smtp::response::Response;
use secrecy::{ExposeSecret, SecretString};

use super::failure::{Failure, Stage, failure};
use super::oauth::Tokens;
use super::settings::{Login, Mechanism, Proof, Token};

/// Login of a provider, and the source of access tokens if the login uses XOAUTH2.
pub(crate) struct Credentials {
    login: Login,
    tokens: Option<Tokens>,
}

impl Credentials {
    pub(crate) fn new(login: Login, tokens: impl FnOnce(&Token) -> Option<Tokens>) -> Self {
        let tokens = match &login.proof {
            Proof::Token(token) => tokens(token),
            Proof::Password(..) => None,
        };
        Credentials { login, tokens }
    }

    /// Logs in. The connection must have finished EHLO.
    pub(crate) async fn log_in(&self, smtp: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        let username = &self.login.username;
        match &self.login.proof {
            Proof::Password(password, mechanism) => match choose(smtp.server_info(), *mechanism)? {
                Mechanism::Plain => plain(smtp, username, password).await,
                Mechanism::Login => login(smtp, username, password).await,
            },
            Proof::Token(token) => {
                if !smtp.server_info().supports_auth_mechanism(Offered::Xoauth2) {
                    return Err(lacks("AUTH XOAUTH2"));
                }
                self.by_token(smtp, token).await
            }
        }
    }

    /// Logs in with a token. If the server refuses a cached token, which may have been revoked, requests a new token and
    /// retries once.
    async fn by_token(&self, smtp: &mut AsyncSmtpConnection, token: &Token) -> Result<(), Failure> {
        let username = &self.login.username;
        let (Some(tokens), Token::Refreshed { .. }) = (&self.tokens, token) else {
            return match token {
                Token::Given(given) => xoauth2(smtp, username, given).await,
                Token::Refreshed { .. } => Err(lacks("token")),
            };
        };
        let (first, is_new) = tokens.get(None).await?;
        match xoauth2(smtp, username, &first).await {
            Err(Failure::Refused { reply, .. }) if !is_new && reply.code == 535 => {
                let (second, _) = tokens.get(Some(&first)).await?;
                xoauth2(smtp, username, &second).await
            }
            result => result,
        }
    }
}

/// Chooses a mechanism that the server offers. Prefers PLAIN to LOGIN, because PLAIN needs fewer round trips.
fn choose(server: &ServerInfo, wanted: Option<Mechanism>) -> Result<Mechanism, Failure> {
    let offers = |mechanism| match mechanism {
        Mechanism::Plain => server.supports_auth_mechanism(Offered::Plain),
        Mechanism::Login => server.supports_auth_mechanism(Offered::Login),
    };
    match wanted {
        Some(mechanism) if offers(mechanism) => Ok(mechanism),
        Some(Mechanism::Plain) => Err(lacks("AUTH PLAIN")),
        Some(Mechanism::Login) => Err(lacks("AUTH LOGIN")),
        None if offers(Mechanism::Plain) => Ok(Mechanism::Plain),
        None if offers(Mechanism::Login) => Ok(Mechanism::Login),
        None => Err(lacks("AUTH PLAIN or LOGIN")),
    }
}

async fn plain(
    smtp: &mut AsyncSmtpConnection,
    username: &str,
    password: &SecretString,
) -> Result<(), Failure> {
    let response = STANDARD.encode(format!("\0{username}\0{}", password.expose_secret()));
    done(&say(smtp, &format!("AUTH PLAIN {response}\r\n")).await?)
}

async fn login(
    smtp: &mut AsyncSmtpConnection,
    username: &str,
    password: &SecretString,
) -> Result<(), Failure> {
    challenged(&say(smtp, "AUTH LOGIN\r\n").await?)?;
    challenged(&say(smtp, &format!("{}\r\n", STANDARD.encode(username))).await?)?;
    done(&say(smtp, &format!("{}\r\n", STANDARD.encode(password.expose_secret()))).await?)
}

async fn xoauth2(
    smtp: &mut AsyncSmtpConnection,
    username: &str,
    token: &SecretString,
) -> Result<(), Failure> {
    let response =
        STANDARD.encode(format!("user={username}\u{1}auth=Bearer {}\u{1}\u{1}", token.expose_secret()));
    let answer = say(smtp, &format!("AUTH XOAUTH2 {response}\r\n")).await?;
    if u16::from(answer.code()) == 334 {
        // The server refused the token, and sent a challenge that contains the error. It sends the final reply after the
        // client has answered with an empty line.
        return done(&say(smtp, "\r\n").await?);
    }
    done(&answer)
}

async fn say(smtp: &mut AsyncSmtpConnection, line: &str) -> Result<Response, Failure> {
    smtp.command(line).await.map_err(|error| failure(Stage::Login, &error))
}

fn challenged(answer: &Response) -> Result<(), Failure> {
    expect(answer, 334)
}

fn done(answer: &Response) -> Result<(), Failure> {
    expect(answer, 235)
}

fn expect(answer: &Response, expected: u16) -> Result<(), Failure> {
    let code = u16::from(answer.code());
    if code == expected {
        Ok(())
    } else {
        Err(Failure::Broken { stage: Stage::Login, cause: format!("unexpected answer {code} to AUTH") })
    }
}

fn lacks(what: &'static str) -> Failure {
    Failure::Unsupported { stage: Stage::Login, what }
}
