//! Faults that a test scripts for an HTTP stand-in.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::Response;
use hyper::body::Bytes;

use crate::faults::{Fault, Faults};

/// Reaction in place of the usual one.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// This answer; nothing is captured.
    Answer(Response<Bytes>),
    /// The connection is closed before the message is taken.
    CutBefore,
    /// The message is taken and captured, and then the connection is closed.
    CutAfter,
    /// Nothing is said until the client goes away; nothing is captured.
    Stall,
}

/// Answers by which a provider reports random faults.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Not now.
    pub temporary: Response<Bytes>,
    /// Not so many, wait.
    pub busy: Response<Bytes>,
    /// The target is dead.
    pub gone: Response<Bytes>,
    /// No caller is served.
    pub down: Response<Bytes>,
    /// Not this message.
    pub refused: Response<Bytes>,
    /// Trouble with the account.
    pub pause: Response<Bytes>,
}

/// A reaction to a message.
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
    /// Reacts once, to the next message.
    #[must_use]
    pub fn new(reaction: Reaction) -> Self {
        Rule { target: None, cause: Cause::Order { reaction, times: 1 } }
    }

    /// Answers the next message so, once.
    #[must_use]
    pub fn answer(response: Response<Bytes>) -> Self {
        Rule::new(Reaction::Answer(response))
    }

    /// Reacts to every message as `faults` say, for as long as the stand-in runs.
    #[must_use]
    pub fn by_chance(faults: Arc<Faults>, answers: Answers) -> Self {
        Rule { target: None, cause: Cause::Chance { faults, answers: Box::new(answers) } }
    }

    /// Only for messages to this target: the token, number or path that the stand-in names so.
    #[must_use]
    pub fn to(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// This many times instead of once. What happens by chance has no number.
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

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub struct Script(Mutex<Vec<Rule>>);

impl Script {
    /// Adds a rule, after those already there.
    pub fn add(&self, rule: Rule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Rules that have not been used up.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The reaction of the first rule that has one, which is used up by one.
    #[must_use]
    pub fn take(&self, target: &str) -> Option<Reaction> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reaction = rules.iter_mut().find_map(|rule| rule.react(target))?;
        rules.retain(|rule| !rule.is_used_up());
        Some(reaction)
    }
}
