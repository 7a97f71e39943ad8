//! Rules with which a test makes an HTTP stand-in answer wrongly, late or not at all.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::Response;
use hyper::body::Bytes;

use crate::faults::{Fault, Faults};

/// Reaction to a message in place of the usual one.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// Sends this answer. The message is not captured.
    Answer(Response<Bytes>),
    /// Closes the connection without an answer. The message is not captured.
    CutBefore,
    /// Captures the message, and closes the connection without an answer.
    CutAfter,
    /// Never answers. The message is not captured.
    Stall,
}

/// Answers with which a provider reports random faults. Each field is the answer for the [`Fault`] of the same name.
#[derive(Clone, Debug)]
pub struct Answers {
    pub temporary: Response<Bytes>,
    pub busy: Response<Bytes>,
    pub gone: Response<Bytes>,
    pub down: Response<Bytes>,
    pub refused: Response<Bytes>,
    pub pause: Response<Bytes>,
}

/// Rule of a script: which messages get which reaction, and how often.
#[derive(Clone, Debug)]
pub struct Rule {
    target: Option<String>,
    cause: Cause,
}

#[derive(Clone, Debug)]
enum Cause {
    Order { reaction: Reaction, times: u32 },
    Chance { faults: Arc<Faults>, answers: Box<Answers> },
}

impl Rule {
    /// Creates a rule that reacts to the next message only.
    #[must_use]
    pub fn new(reaction: Reaction) -> Self {
        Rule { target: None, cause: Cause::Order { reaction, times: 1 } }
    }

    /// Creates a rule that answers only the next message, with `response`.
    #[must_use]
    pub fn answer(response: Response<Bytes>) -> Self {
        Rule::new(Reaction::Answer(response))
    }

    /// Creates a rule that lets `faults` choose the fault of every message, until the stand-in stops.
    #[must_use]
    pub fn by_chance(faults: Arc<Faults>, answers: Answers) -> Self {
        Rule { target: None, cause: Cause::Chance { faults, answers: Box::new(answers) } }
    }

    /// Restricts the rule to messages to this target, such as a device token or a number. See the method `script` of the
    /// stand-in.
    #[must_use]
    pub fn to(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
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

    fn react(&mut self, target: &str) -> Option<Reaction> {
        if self.target.as_deref().is_some_and(|wanted| wanted != target) {
            return None;
        }
        match &mut self.cause {
            Cause::Order { reaction, times } => {
                *times = times.saturating_sub(1);
                Some(reaction.clone())
            }
            Cause::Chance { faults, answers } => Some(match faults.next(target)? {
                Fault::Temporary => Reaction::Answer(answers.temporary.clone()),
                Fault::Busy => Reaction::Answer(answers.busy.clone()),
                Fault::Gone => Reaction::Answer(answers.gone.clone()),
                Fault::Down => Reaction::Answer(answers.down.clone()),
                Fault::Refused => Reaction::Answer(answers.refused.clone()),
                Fault::Pause => Reaction::Answer(answers.pause.clone()),
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

/// Rules of a stand-in that can still react, oldest first.
#[derive(Debug, Default)]
pub struct Script(Mutex<Vec<Rule>>);

impl Script {
    /// Adds a rule after the existing ones.
    pub fn add(&self, rule: Rule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Number of rules that can still react.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the reaction of the first rule that applies, and counts it against the rule's limit. Returns None if no
    /// rule applies.
    #[must_use]
    pub fn take(&self, target: &str) -> Option<Reaction> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reaction = rules.iter_mut().find_map(|rule| rule.react(target))?;
        rules.retain(|rule| !rule.is_used_up());
        Some(reaction)
    }
}
