//! Rules with which a test makes a mail server answer wrongly, late or not at all.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::faults::{Fault, Faults};

/// Stages of an SMTP session at which a rule can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A connection was opened, before the greeting.
    Connect,
    /// `EHLO` or `HELO` was received.
    Hello,
    /// `STARTTLS` was received. If the rule's answer begins with 220, TLS starts after it.
    StartTls,
    /// `AUTH` was received.
    Auth,
    /// `MAIL` was received.
    Mail,
    /// `RCPT` was received.
    Rcpt,
    /// `DATA` was received, before the answer 354.
    Data,
    /// The first line of the content was received.
    Content,
    /// The final dot was received. If the reaction is not an answer, the email is captured first.
    Dot,
}

/// Reaction that replaces the normal reaction at a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Sends this reply, such as `450 4.2.0 later`. The connection stays usable, except after a 421.
    Answer(String),
    /// Sends these octets as they are, and then nothing more until the client disconnects. After the final dot, the email is captured
    /// first.
    Raw(Vec<u8>),
    /// Closes the connection without a reply.
    Cut,
    /// Sends nothing more until the client disconnects.
    Stall,
}

/// Rule of a script: the stage and the emails for which the server reacts differently, and how often.
#[derive(Clone, Debug)]
pub struct Rule {
    to: Option<String>,
    cause: Cause,
}

#[derive(Clone, Debug)]
enum Cause {
    Order {
        stage: Stage,
        reaction: Reaction,
        times: u32,
    },
    Chance {
        faults: Arc<Faults>,
        /// Recipients whose fault is [`Fault::CutAfter`]. The connection is closed after their email is captured.
        cut_after: HashSet<String>,
    },
}

impl Rule {
    /// Creates a rule that answers `stage` with `text` once.
    pub fn answer(stage: Stage, text: impl Into<String>) -> Self {
        Rule::at(stage, Reaction::Answer(text.into()))
    }

    /// Creates a rule that sends `octets` at `stage` once, and then nothing more.
    pub fn raw(stage: Stage, octets: impl Into<Vec<u8>>) -> Self {
        Rule::at(stage, Reaction::Raw(octets.into()))
    }

    /// Creates a rule that closes the connection at `stage` once.
    #[must_use]
    pub fn cut(stage: Stage) -> Self {
        Rule::at(stage, Reaction::Cut)
    }

    /// Creates a rule that stops answering at `stage` once.
    #[must_use]
    pub fn stall(stage: Stage) -> Self {
        Rule::at(stage, Reaction::Stall)
    }

    /// Creates a rule that lets `faults` choose the fault of every recipient, until the stand-in stops. The replies to
    /// RCPT are 450 4.2.0 (temporary), 452 4.3.1 (busy), 550 5.1.1 (gone), 554 5.6.0 (refused) and 535 5.7.8 (problem
    /// with the account). A provider that is down answers 421.
    #[must_use]
    pub fn by_chance(faults: Arc<Faults>) -> Self {
        Rule { to: None, cause: Cause::Chance { faults, cut_after: HashSet::new() } }
    }

    fn at(stage: Stage, reaction: Reaction) -> Self {
        Rule { to: None, cause: Cause::Order { stage, reaction, times: 1 } }
    }

    /// Restricts the rule to emails for this recipient: an address, or `*@example.com` for a whole domain. Such a rule
    /// applies only from [`Stage::Rcpt`] on, because the recipient is unknown at earlier stages.
    #[must_use]
    pub fn to(mut self, recipient: impl Into<String>) -> Self {
        self.to = Some(recipient.into());
        self
    }

    /// Lets the rule react this many times instead of once. Has no effect on a rule created by `by_chance`.
    #[must_use]
    pub fn times(mut self, most: u32) -> Self {
        if let Cause::Order { times, .. } = &mut self.cause {
            *times = most;
        }
        self
    }

    fn react(&mut self, at: Stage, recipients: &[String]) -> Option<Reaction> {
        if let Some(pattern) = &self.to
            && !recipients.iter().any(|to| matches(pattern, to))
        {
            return None;
        }
        match &mut self.cause {
            Cause::Order { stage, .. } if *stage != at => None,
            Cause::Order { reaction, times, .. } => {
                *times = times.saturating_sub(1);
                Some(reaction.clone())
            }
            Cause::Chance { faults, cut_after } => by_chance(faults, cut_after, at, recipients.last()),
        }
    }

    fn is_used_up(&self) -> bool {
        matches!(self.cause, Cause::Order { times: 0, .. })
    }
}

fn by_chance(
    faults: &Faults,
    cut_after: &mut HashSet<String>,
    at: Stage,
    recipient: Option<&String>,
) -> Option<Reaction> {
    let answer = |text: &str| Some(Reaction::Answer(text.to_owned()));
    match (at, recipient) {
        (Stage::Connect | Stage::Mail, _) if faults.rejects_caller() => answer("421 4.3.2 down by chance"),
        (Stage::Rcpt, Some(recipient)) => match faults.next(recipient)? {
            Fault::Temporary => answer("450 4.2.0 not now by chance"),
            Fault::Busy => answer("452 4.3.1 too busy by chance"),
            Fault::Gone => answer("550 5.1.1 gone by chance"),
            Fault::Down => answer("421 4.3.2 down by chance"),
            Fault::Refused => answer("554 5.6.0 refused by chance"),
            Fault::Pause => answer("535 5.7.8 no login by chance"),
            Fault::Stall => Some(Reaction::Stall),
            Fault::CutBefore => Some(Reaction::Cut),
            Fault::CutAfter => {
                cut_after.insert(recipient.clone());
                None
            }
        },
        (Stage::Dot, Some(recipient)) => cut_after.remove(recipient).then_some(Reaction::Cut),
        _ => None,
    }
}

fn matches(pattern: &str, recipient: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => recipient.ends_with(end),
        None => pattern == recipient,
    }
}

/// Rules that can still react, oldest first.
#[derive(Debug, Default)]
pub(super) struct Script(Mutex<Vec<Rule>>);

impl Script {
    pub(super) fn add(&self, rule: Rule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the reaction of the first rule that applies, and counts it against the rule's limit. Returns None if no
    /// rule applies.
    pub(super) fn take(&self, stage: Stage, recipients: &[String]) -> Option<Reaction> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reaction = rules.iter_mut().find_map(|rule| rule.react(stage, recipients))?;
        rules.retain(|rule| !rule.is_used_up());
        Some(reaction)
    }
}

/// If the local part of the recipient is an enhanced code (RFC 3463), as in `5.1.1@example.com`, returns a reply that
/// refuses the recipient with this code. Otherwise returns None.
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
