//! Greeting, EHLO and HELO (RFC 5321 sections 3.2 and 4.1.1.1).

use super::failure::{Failure, Stage};
use super::limits::Times;
use super::reply::Reply;
use super::wire::{Transport, Wire};

/// Extensions of a server; none if it knows only HELO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Features {
    /// RFC 2920.
    pub(super) pipelining: bool,
    /// RFC 1870.
    pub(super) size: bool,
    /// RFC 6531.
    pub(super) utf8: bool,
    /// RFC 3207.
    pub(super) starttls: bool,
    /// Mechanisms of AUTH (RFC 4954), in upper case.
    pub(super) mechanisms: Vec<String>,
}

impl Features {
    /// Keywords are case-insensitive.
    fn offered(reply: &Reply) -> Features {
        let mut features = Features::default();
        for line in reply.text.lines() {
            // Servers from before RFC 2554 write `AUTH=LOGIN`.
            let mut words = line.split([' ', '\t', '=']).map(str::to_ascii_uppercase);
            match words.next().unwrap_or_default().as_str() {
                "PIPELINING" => features.pipelining = true,
                "SIZE" => features.size = true,
                "SMTPUTF8" => features.utf8 = true,
                "STARTTLS" => features.starttls = true,
                "AUTH" => features.mechanisms.extend(words),
                _ => {}
            }
        }
        features
    }

    pub(super) fn offers_login_by(&self, mechanism: &str) -> bool {
        self.mechanisms.iter().any(|offered| offered == mechanism)
    }
}

pub(super) async fn greeting<S: Transport>(wire: &mut Wire<S>, times: &Times) -> Result<(), Failure> {
    wire.reply(Stage::Connect, times.greeting).await?.success(Stage::Connect).map(drop)
}

/// Sends EHLO, or HELO to a server that does not know it. Set `is_known` if the server has heard the name before, unencrypted; it may then
/// refuse to hear it again, and the email needs no extension.
pub(super) async fn hello<S: Transport>(
    wire: &mut Wire<S>,
    name: &str,
    times: &Times,
    is_known: bool,
) -> Result<Features, Failure> {
    let stage = Stage::Connect;
    let reply = wire.command(stage, &format!("EHLO {name}\r\n"), times.hello).await?;
    match reply.success(stage) {
        Ok(reply) => Ok(Features::offered(&reply)),
        Err(Failure::Refused { reply, .. }) if is_unknown_command(&reply) => {
            let reply = wire.command(stage, &format!("HELO {name}\r\n"), times.hello).await?;
            match reply.success(stage) {
                Err(Failure::Refused { reply, .. }) if is_known && reply.code == 503 => {}
                result => drop(result?),
            }
            Ok(Features::default())
        }
        Err(failure) => Err(failure),
    }
}

/// Returns true if a refusal is about the syntax of the command, and not about the client (RFC 5321 section 4.2.1).
fn is_unknown_command(reply: &Reply) -> bool {
    (500..510).contains(&reply.code)
}
