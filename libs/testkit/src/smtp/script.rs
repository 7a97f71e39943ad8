//! What a test tells an SMTP stand-in to do wrong.

use std::sync::{Mutex, PoisonError};

/// The moments of an SMTP conversation at which a rule can step in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A connection was made, nothing greeted yet.
    Connect,
    /// `EHLO` or `HELO` came.
    Hello,
    /// `AUTH` came.
    Auth,
    /// `MAIL` came.
    Mail,
    /// `RCPT` came.
    Rcpt,
    /// `DATA` came, its 354 not yet given.
    Data,
    /// The first line of the content came.
    Content,
    /// The final dot came. Unless the reaction is an answer, the message is captured before it.
    Dot,
}

/// What happens instead of the usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// This reply, such as `450 4.2.0 later`. The connection stays usable, except after a 421.
    Answer(String),
    /// The connection is closed without a word.
    Cut,
    /// Nothing more is said or read until the client goes away.
    Stall,
}

/// A reaction to a stage.
#[derive(Clone, Debug)]
pub struct Rule {
    stage: Stage,
    to: Option<String>,
    reaction: Reaction,
    times: u32,
}

impl Rule {
    /// Answers `stage` with `text` once.
    pub fn answer(stage: Stage, text: impl Into<String>) -> Self {
        Rule { stage, to: None, reaction: Reaction::Answer(text.into()), times: 1 }
    }

    /// Closes the connection at `stage` once.
    #[must_use]
    pub fn cut(stage: Stage) -> Self {
        Rule { stage, to: None, reaction: Reaction::Cut, times: 1 }
    }

    /// Falls silent at `stage` once.
    #[must_use]
    pub fn stall(stage: Stage) -> Self {
        Rule { stage, to: None, reaction: Reaction::Stall, times: 1 }
    }

    /// Only for messages to this recipient: an address, or `*@example.com` for a whole domain. From [`Stage::Rcpt`] on.
    #[must_use]
    pub fn to(mut self, recipient: impl Into<String>) -> Self {
        self.to = Some(recipient.into());
        self
    }

    /// This many times instead of once.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    fn fits(&self, stage: Stage, recipients: &[String]) -> bool {
        self.stage == stage
            && self.to.as_deref().is_none_or(|pattern| recipients.iter().any(|to| matches(pattern, to)))
    }
}

fn matches(pattern: &str, recipient: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => recipient.ends_with(end),
        None => pattern == recipient,
    }
}

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub(super) struct Script(Mutex<Vec<Rule>>);

impl Script {
    pub(super) fn add(&self, rule: Rule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The reaction of the first rule that fits, which is used up by one.
    pub(super) fn take(&self, stage: Stage, recipients: &[String]) -> Option<Reaction> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = rules.iter().position(|rule| rule.fits(stage, recipients))?;
        let rule = rules.get_mut(at)?;
        rule.times = rule.times.saturating_sub(1);
        let reaction = rule.reaction.clone();
        if rule.times == 0 {
            rules.remove(at);
        }
        Some(reaction)
    }
}

/// The reply that a recipient such as `5.1.1@example.com` asks for by its name: enhanced codes of RFC 3463.
pub(super) fn reply_by_name(recipient: &str) -> Option<String> {
    let (code, _) = recipient.split_once('@')?;
    let numbers = code.split('.').map(|part| part.parse::<u16>().ok()).collect::<Option<Vec<_>>>()?;
    let basic = match numbers[..] {
        [4, _, _] => "450",
        [5, 2, 2] => "552",
        [5, _, _] => "550",
        _ => return None,
    };
    Some(format!("{basic} {code} scripted by the recipient's name"))
}
