use std::time::Duration;

use domain::content::PushContent;
use domain::{Answer, Outcome};
use worker::{ChannelResources, Outbound};

/// Includes the response. If the attempt has less time left, the call ends with the attempt.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(15);
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
pub struct Calls {
    pub(crate) outbound: Outbound,
    pub(crate) limit: Duration,
}

impl ChannelResources for Calls {
    type Input<'a> = Push<'a>;
}

#[derive(Clone, Copy)]
pub struct Push<'a> {
    pub(crate) content: &'a PushContent,
    /// Target such as `fcm:{token}`. The part before the colon names the push service, and is also the kind of its providers.
    target: &'a str,
}

impl<'a> Push<'a> {
    pub(crate) fn new(content: &'a PushContent, target: &'a str) -> Push<'a> {
        Push { content, target }
    }

    /// Fails with an answer that pauses the provider if the token belongs to another service.
    pub(crate) fn token_of(&self, service: &str) -> Result<&'a str, Answer> {
        match self.target.split_once(':') {
            Some((named, token)) if named == service => Ok(token),
            _ => Err(Answer::new(Outcome::PauseProvider, "target", "the token is for another push service")),
        }
    }
}

pub(crate) fn no_client(error: &reqwest::Error) -> Answer {
    Answer::new(Outcome::PauseProvider, "settings", format!("cannot create a client: {error}"))
}
