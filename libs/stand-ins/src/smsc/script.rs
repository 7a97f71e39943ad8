//! Rules with which a test makes a message centre answer wrongly, late or not at all.

use std::sync::{Arc, Mutex, PoisonError};

use crate::faults::{Fault, Faults};

/// ESME_RMSGQFUL: the queue is full.
const FULL: u32 = 0x14;
/// ESME_RTHROTTLED: there are too many messages.
const THROTTLED: u32 = 0x58;
/// ESME_RINVDSTADR: the recipient is invalid.
const NO_SUCH_NUMBER: u32 = 0x0b;
/// ESME_RSYSERR: the message centre has failed.
const SYSTEM_ERROR: u32 = 0x08;
/// ESME_RINVMSGLEN: the length is invalid.
const WRONG_LENGTH: u32 = 0x01;
/// ESME_RINVSRCADR: the sender is invalid.
const WRONG_SENDER: u32 = 0x0a;

/// Stages of a session at which a rule can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A bind was received.
    Bind,
    /// A submit_sm was received.
    Submit,
    /// An enquire_link was received.
    EnquireLink,
}

/// Reaction to a PDU in place of the usual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Answers with this command_status.
    Status(u32),
    /// Answers with a generic_nack with this command_status.
    Nack(u32),
    /// Closes the connection without an answer. The message is not captured.
    CutBefore,
    /// Captures the message, and closes the connection without an answer.
    CutAfter,
    /// Never answers this PDU, but continues to answer others.
    Stall,
}

/// Rule of a script: which PDUs get which reaction, and how often.
#[derive(Clone, Debug)]
pub struct Rule {
    to: Option<String>,
    part: Option<u8>,
    cause: Cause,
}

#[derive(Clone, Debug)]
enum Cause {
    Order { stage: Stage, reaction: Reaction, times: u32 },
    Chance(Arc<Faults>),
}

impl Rule {
    /// Creates a rule that reacts to the next PDU at `stage` only.
    #[must_use]
    pub fn new(stage: Stage, reaction: Reaction) -> Self {
        Rule { to: None, part: None, cause: Cause::Order { stage, reaction, times: 1 } }
    }

    /// Creates a rule that lets `faults` choose the fault of every message, until the stand-in stops. The fault affects
    /// the first part of a message.
    #[must_use]
    pub fn by_chance(faults: Arc<Faults>) -> Self {
        Rule { to: None, part: Some(1), cause: Cause::Chance(faults) }
    }

    /// Creates a rule that answers the next submission with this command_status.
    #[must_use]
    pub fn status(status: u32) -> Self {
        Rule::new(Stage::Submit, Reaction::Status(status))
    }

    /// Restricts the rule to messages to this number, which begins with `+`.
    #[must_use]
    pub fn to(mut self, number: impl Into<String>) -> Self {
        self.to = Some(number.into());
        self
    }

    /// Restricts the rule to this part of a message, counted from 1.
    #[must_use]
    pub fn part(mut self, part: u8) -> Self {
        self.part = Some(part);
        self
    }

    /// Limits the rule to this many reactions instead of one. Has no effect on random faults.
    #[must_use]
    pub fn times(mut self, most: u32) -> Self {
        if let Cause::Order { times, .. } = &mut self.cause {
            *times = most;
        }
        self
    }

    fn react(&mut self, at: Stage, to: &str, part: u8) -> Option<Reaction> {
        let fits = self.to.as_deref().is_none_or(|wanted| wanted == to)
            && self.part.is_none_or(|wanted| wanted == part);
        if !fits {
            return None;
        }
        match &mut self.cause {
            Cause::Order { stage, .. } if *stage != at => None,
            Cause::Order { reaction, times, .. } => {
                *times = times.saturating_sub(1);
                Some(reaction.clone())
            }
            Cause::Chance(_) if at != Stage::Submit => None,
            Cause::Chance(faults) => Some(match faults.next(to)? {
                Fault::Temporary => Reaction::Status(FULL),
                Fault::Busy => Reaction::Status(THROTTLED),
                Fault::Gone => Reaction::Status(NO_SUCH_NUMBER),
                Fault::Down => Reaction::Status(SYSTEM_ERROR),
                Fault::Refused => Reaction::Status(WRONG_LENGTH),
                Fault::Pause => Reaction::Status(WRONG_SENDER),
                Fault::Stall => Reaction::Stall,
                Fault::CutBefore => Reaction::CutBefore,
                Fault::CutAfter => Reaction::CutAfter,
            }),
        }
    }

    fn is_used_up(&self) -> bool {
        matches!(self.cause, Cause::Order { times: 0, .. })
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
    pub(super) fn take(&self, stage: Stage, to: &str, part: u8) -> Option<Reaction> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reaction = rules.iter_mut().find_map(|rule| rule.react(stage, to, part))?;
        rules.retain(|rule| !rule.is_used_up());
        Some(reaction)
    }
}
