use std::sync::Arc;

use crate::faults::{Fault, Faults};
use crate::recipient::is_same;
use crate::script::{self, Protocol};

/// A rule selects a stage, and parts of messages by their number and recipient.
#[derive(Clone, Copy, Debug)]
pub enum Smpp {}

pub type Rule = script::Rule<Smpp>;
pub(crate) type Script = script::Script<Smpp>;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Bind,
    Submit,
    EnquireLink,
}

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

/// A member that is None allows everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    stage: Option<Stage>,
    to: Option<String>,
    part: Option<u8>,
}

impl Protocol for Smpp {
    type Moment<'a> = (Stage, &'a str, u8);
    type Filter = Filter;
    type Reaction = Reaction;
    type Chance = Arc<Faults>;

    fn applies(filter: &Filter, (stage, to, part): (Stage, &str, u8)) -> bool {
        filter.stage.is_none_or(|wanted| wanted == stage)
            && filter.to.as_deref().is_none_or(|wanted| is_same(wanted, to))
            && filter.part.is_none_or(|wanted| wanted == part)
    }

    fn by_chance(faults: &mut Arc<Faults>, (_, to, _): (Stage, &str, u8)) -> Option<Reaction> {
        Some(match faults.next(to)? {
            Fault::Temporary => Reaction::Status(FULL),
            Fault::Busy => Reaction::Status(THROTTLED),
            Fault::Gone => Reaction::Status(NO_SUCH_NUMBER),
            Fault::Down => Reaction::Status(SYSTEM_ERROR),
            Fault::Refused => Reaction::Status(WRONG_LENGTH),
            Fault::Pause => Reaction::Status(WRONG_SENDER),
            Fault::Stall => Reaction::Stall,
            Fault::CutBefore => Reaction::CutBefore,
            Fault::CutAfter => Reaction::CutAfter,
        })
    }
}

impl Rule {
    #[must_use]
    pub fn new(stage: Stage, reaction: Reaction) -> Self {
        Rule::once(Filter { stage: Some(stage), ..Filter::default() }, reaction)
    }

    /// Creates a rule that lets `faults` choose the fault of every message, until the stand-in stops. The fault affects
    /// the first part of a message.
    #[must_use]
    pub fn by_chance(faults: Arc<Faults>) -> Self {
        Rule::always(Filter { stage: Some(Stage::Submit), to: None, part: Some(1) }, faults)
    }

    #[must_use]
    pub fn status(status: u32) -> Self {
        Rule::new(Stage::Submit, Reaction::Status(status))
    }

    /// Restricts the rule to messages for this number, which begins with `+`.
    #[must_use]
    pub fn to(mut self, number: impl Into<String>) -> Self {
        self.filter.to = Some(number.into());
        self
    }

    /// Restricts the rule to this part of a message, counted from 1.
    #[must_use]
    pub fn part(mut self, part: u8) -> Self {
        self.filter.part = Some(part);
        self
    }
}
