use std::sync::Arc;

use hyper::Response;
use hyper::body::Bytes;

use crate::faults::{Fault, Faults};
use crate::recipient::is_same;
use crate::script::{self, Protocol};

/// A rule selects messages by their target.
#[derive(Clone, Copy, Debug)]
pub enum Http {}

pub type Rule = script::Rule<Http>;
pub type Script = script::Script<Http>;

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

/// Answers for random faults, each for the [`Fault`] of the same name.
#[derive(Clone, Debug)]
pub struct Answers {
    pub temporary: Response<Bytes>,
    pub busy: Response<Bytes>,
    pub gone: Response<Bytes>,
    pub down: Response<Bytes>,
    pub refused: Response<Bytes>,
    pub pause: Response<Bytes>,
}

#[derive(Clone, Debug)]
pub struct Chance {
    faults: Arc<Faults>,
    answers: Box<Answers>,
}

impl Protocol for Http {
    type Moment<'a> = &'a str;
    type Filter = Option<String>;
    type Reaction = Reaction;
    type Chance = Chance;

    fn applies(filter: &Option<String>, target: &str) -> bool {
        filter.as_deref().is_none_or(|wanted| is_same(wanted, target))
    }

    fn by_chance(Chance { faults, answers }: &mut Chance, target: &str) -> Option<Reaction> {
        Some(match faults.next(target)? {
            Fault::Temporary => Reaction::Answer(answers.temporary.clone()),
            Fault::Busy => Reaction::Answer(answers.busy.clone()),
            Fault::Gone => Reaction::Answer(answers.gone.clone()),
            Fault::Down => Reaction::Answer(answers.down.clone()),
            Fault::Refused => Reaction::Answer(answers.refused.clone()),
            Fault::Pause => Reaction::Answer(answers.pause.clone()),
            Fault::Stall => Reaction::Stall,
            Fault::CutBefore => Reaction::CutBefore,
            Fault::CutAfter => Reaction::CutAfter,
        })
    }
}

impl Rule {
    #[must_use]
    pub fn new(reaction: Reaction) -> Self {
        Rule::once(None, reaction)
    }

    #[must_use]
    pub fn answer(response: Response<Bytes>) -> Self {
        Rule::new(Reaction::Answer(response))
    }

    #[must_use]
    pub fn by_chance(faults: Arc<Faults>, answers: Answers) -> Self {
        Rule::always(None, Chance { faults, answers: Box::new(answers) })
    }

    /// The method `script` of each stand-in documents its targets.
    #[must_use]
    pub fn to(mut self, target: impl Into<String>) -> Self {
        self.filter = Some(target.into());
        self
    }
}
