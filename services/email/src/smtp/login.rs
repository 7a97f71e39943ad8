//! Login with AUTH (RFC 4954).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};

use super::failure::{Failure, Stage};
use super::features::Features;
use super::oauth::Tokens;
use super::reply::Reply;
use super::settings::{Login, Mechanism, Proof, Token};
use super::wire::{Transport, Wire, within};

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

    pub(super) async fn log_in(
        &self,
        wire: &mut Wire<Box<dyn Transport>>,
        features: &Features,
        limit: Duration,
    ) -> Result<(), Failure> {
        let username = &self.login.username;
        let mut dialogue = Dialogue { wire, limit };
        match &self.login.proof {
            Proof::Password(password, mechanism) => match choose(features, *mechanism)? {
                Mechanism::Plain => dialogue.plain(username, password).await,
                Mechanism::Login => dialogue.login(username, password).await,
            },
            Proof::Token(token) => {
                if !features.offers_login_by("XOAUTH2") {
                    return Err(lacks("AUTH XOAUTH2"));
                }
                self.by_token(&mut dialogue, token).await
            }
        }
    }

    /// If the server refuses a cached token, which may have been revoked, requests a new token and retries once.
    async fn by_token(&self, dialogue: &mut Dialogue<'_>, token: &Token) -> Result<(), Failure> {
        let username = &self.login.username;
        let (Some(tokens), Token::Refreshed { .. }) = (&self.tokens, token) else {
            return match token {
                Token::Given(given) => dialogue.xoauth2(username, given).await,
                Token::Refreshed { .. } => Err(lacks("token")),
            };
        };
        let limit = dialogue.limit;
        let requested = async |refused| {
            let token = within(limit, tokens.get(refused)).await;
            token.unwrap_or(Err(Failure::TimedOut { stage: Stage::Login }))
        };
        let (first, is_new) = requested(None).await?;
        match dialogue.xoauth2(username, &first).await {
            Err(Failure::Refused { reply, .. }) if !is_new && reply.code == 535 => {
                let (second, _) = requested(Some(&first)).await?;
                dialogue.xoauth2(username, &second).await
            }
            result => result,
        }
    }
}

/// Prefers PLAIN to LOGIN, because PLAIN needs fewer round trips.
fn choose(server: &Features, wanted: Option<Mechanism>) -> Result<Mechanism, Failure> {
    let offers = |mechanism| match mechanism {
        Mechanism::Plain => server.offers_login_by("PLAIN"),
        Mechanism::Login => server.offers_login_by("LOGIN"),
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

struct Dialogue<'a> {
    wire: &'a mut Wire<Box<dyn Transport>>,
    limit: Duration,
}

impl Dialogue<'_> {
    async fn plain(&mut self, username: &str, password: &SecretString) -> Result<(), Failure> {
        let response = STANDARD.encode(format!("\0{username}\0{}", password.expose_secret()));
        done(self.say(&format!("AUTH PLAIN {response}\r\n")).await?)
    }

    async fn login(&mut self, username: &str, password: &SecretString) -> Result<(), Failure> {
        self.say("AUTH LOGIN\r\n").await?.go_on(Stage::Login)?;
        self.say(&format!("{}\r\n", STANDARD.encode(username))).await?.go_on(Stage::Login)?;
        done(self.say(&format!("{}\r\n", STANDARD.encode(password.expose_secret()))).await?)
    }

    async fn xoauth2(&mut self, username: &str, token: &SecretString) -> Result<(), Failure> {
        let response =
            STANDARD.encode(format!("user={username}\u{1}auth=Bearer {}\u{1}\u{1}", token.expose_secret()));
        let reply = self.say(&format!("AUTH XOAUTH2 {response}\r\n")).await?;
        if reply.code == 334 {
            // The server refused the token, and sent a challenge that contains the error. It sends the final reply after the
            // client has answered with an empty line.
            return done(self.say("\r\n").await?);
        }
        done(reply)
    }

    async fn say(&mut self, line: &str) -> Result<Reply, Failure> {
        self.wire.command(Stage::Login, line, self.limit).await
    }
}

fn done(reply: Reply) -> Result<(), Failure> {
    reply.success(Stage::Login).map(drop)
}

fn lacks(what: &'static str) -> Failure {
    Failure::Unsupported { stage: Stage::Login, what }
}
