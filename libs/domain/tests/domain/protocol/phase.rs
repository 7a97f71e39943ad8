//! Messages of the log, and the phases of a worker.

use domain::Status;

use crate::ledger_model::Token;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) attempt: u32,
    /// True if the log would deliver the message now.
    pub(super) waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Yes,
    No,
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Has {
        attempt: u32,
    },
    Claimed {
        attempt: u32,
        token: Token,
        /// True if an earlier claim of the attempt expired.
        takes_over: bool,
    },
    /// The claim lasts long enough for the call.
    Ready {
        attempt: u32,
        token: Token,
    },
    Calling {
        attempt: u32,
        token: Token,
    },
    Answered {
        attempt: u32,
        token: Token,
        answer: Answer,
    },
    /// The worker has no claim. It sets a timer for the job, and then acknowledges the message.
    ToPostpone {
        attempt: u32,
    },
    /// The worker has read or written this status but not published it yet. The ledger may change in the meantime.
    ToPublish {
        attempt: u32,
        status: Status,
    },
    ToAcknowledge {
        attempt: u32,
    },
}

impl Phase {
    pub(super) fn attempt(self) -> Option<u32> {
        match self {
            Phase::Idle => None,
            Phase::Has { attempt }
            | Phase::Claimed { attempt, .. }
            | Phase::Ready { attempt, .. }
            | Phase::Calling { attempt, .. }
            | Phase::Answered { attempt, .. }
            | Phase::ToPostpone { attempt }
            | Phase::ToPublish { attempt, .. }
            | Phase::ToAcknowledge { attempt } => Some(attempt),
        }
    }
}
