//! What a scheduler can decide. A history is a list of choices; each means the same whatever stands before it, and one
//! that is not possible is passed over, so that choices can be taken out of a history.

use std::fmt;

use crate::providers::{PROVIDERS, Weather};

/// A process of Tidings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    Gateway(usize),
    Dispatcher(usize),
    Worker(usize),
    Timers(usize),
    Projection(usize),
}

impl Actor {
    /// Two of each kind.
    pub(crate) const ALL: [Actor; 10] = [
        Actor::Gateway(0),
        Actor::Dispatcher(0),
        Actor::Worker(0),
        Actor::Timers(0),
        Actor::Projection(0),
        Actor::Gateway(1),
        Actor::Dispatcher(1),
        Actor::Worker(1),
        Actor::Timers(1),
        Actor::Projection(1),
    ];

    /// Its place in a list of all.
    pub(crate) fn index(self) -> usize {
        let (kind, number) = match self {
            Actor::Gateway(number) => (0, number),
            Actor::Dispatcher(number) => (1, number),
            Actor::Worker(number) => (2, number),
            Actor::Timers(number) => (3, number),
            Actor::Projection(number) => (4, number),
        };
        number * 5 + kind
    }

    /// The other one of its kind.
    pub(crate) fn twin(self) -> Actor {
        match self {
            Actor::Gateway(number) => Actor::Gateway(1 - number),
            Actor::Dispatcher(number) => Actor::Dispatcher(1 - number),
            Actor::Worker(number) => Actor::Worker(1 - number),
            Actor::Timers(number) => Actor::Timers(1 - number),
            Actor::Projection(number) => Actor::Projection(1 - number),
        }
    }
}

/// What becomes of one write, publication, acknowledgement or call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    /// It is done, and the answer comes.
    Done,
    /// It is done, and the answer is lost.
    Unheard,
    /// It is not done, and that is noticed.
    Failed,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A process makes its next step.
    Step(Actor, Luck),
    /// A process dies and starts anew.
    Crash(Actor),
    /// A process stands still from now on.
    Pause(Actor),
    /// It goes on.
    Resume(Actor),
    /// So many milliseconds pass.
    Wait(u64),
    /// Time passes until something is due.
    WaitForNext,
    /// A client begins to send something.
    Send,
    /// A client that has its answer asks again with the same key.
    Repeat,
    /// A person changes the inbox.
    Command,
    /// A request is cancelled.
    Cancel,
    /// A person gets another address, or turns a channel off or on.
    Directory,
    /// A person is erased.
    Erase,
    /// A provider answers otherwise from now on.
    Weather(usize, Weather),
    /// The log hands out a message again: it forgot an acknowledgement, or that somebody has it.
    Redeliver,
}

/// A move, with the number that decides all that is left open by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) what: Move,
    pub(crate) salt: u64,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Move::Step(actor, Luck::Done) => write!(f, "{actor:?} goes on"),
            Move::Step(actor, Luck::Unheard) => write!(f, "{actor:?} goes on, and the answer is lost"),
            Move::Step(actor, Luck::Failed) => write!(f, "{actor:?} goes on in vain"),
            Move::Crash(actor) => write!(f, "{actor:?} crashes"),
            Move::Pause(actor) => write!(f, "{actor:?} is paused"),
            Move::Resume(actor) => write!(f, "{actor:?} is continued"),
            Move::Wait(millis) => write!(f, "{millis} ms pass"),
            Move::WaitForNext => f.write_str("time passes until something is due"),
            Move::Send => f.write_str("a client wants to send"),
            Move::Repeat => f.write_str("a client asks again"),
            Move::Command => f.write_str("a person changes the inbox"),
            Move::Cancel => f.write_str("a request is cancelled"),
            Move::Directory => f.write_str("the directory changes"),
            Move::Erase => f.write_str("a person is erased"),
            Move::Weather(provider, weather) => write!(f, "{} is {weather:?}", PROVIDERS[provider].name),
            Move::Redeliver => f.write_str("the log hands a message out again"),
        }
    }
}
