//! The protocol by which a delivery is claimed, called and settled, as a pure state machine: what each statement of the
//! ledger does to one delivery. The store's statements are held against it, and it is searched for interleavings of
//! workers, crashes and pauses that break a promise.

use crate::{Reason, Status};

/// Names a claim.
pub type Token = u32;

/// Whether somebody holds a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    /// Nobody.
    None,
    /// The holder of the token.
    Live,
    /// The holder of the token held it, and may not have noticed that it is over.
    Over,
}

/// The row of one delivery, as far as the protocol goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// Its state.
    pub status: Status,
    /// Why.
    pub reason: Option<Reason>,
    /// The attempt that comes next, or that is under way, or was the last.
    pub attempt: u32,
    /// The latest claim.
    pub token: Option<Token>,
    /// Whether that claim still holds.
    pub lease: Lease,
    /// Whether the claim's call was marked.
    pub calling: bool,
    /// Whether the attempt has been settled.
    pub made: bool,
    /// What a claim finds to end it with: cancelled, expired, erased or suppressed.
    pub stop: Option<(Status, Option<Reason>)>,
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claimed {
    /// The attempt may be made.
    Ours,
    /// The delivery has ended, or gone on.
    Done,
    /// Somebody else may be making it.
    Leased,
    /// The job is ahead of the ledger.
    Missing,
}

/// What an answer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// The end.
    End(Status, Option<Reason>),
    /// Another attempt.
    Retry,
    /// Set aside.
    Park,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            status: Status::Queued,
            reason: None,
            attempt: 1,
            token: None,
            lease: Lease::None,
            calling: false,
            made: false,
            stop: None,
        }
    }
}

impl Ledger {
    /// Asks for the right to make an attempt.
    pub fn claim(&mut self, attempt: u32, fresh: Token) -> Claimed {
        if self.status.is_terminal() || self.attempt > attempt {
            return Claimed::Done;
        }
        if self.attempt < attempt {
            return Claimed::Missing;
        }
        if self.lease == Lease::Live {
            return Claimed::Leased;
        }
        if self.calling {
            self.end(Status::Unknown, Some(Reason::OutcomeUnknown));
            return Claimed::Done;
        }
        if let Some((status, reason)) = self.stop {
            self.end(status, reason);
            return Claimed::Done;
        }
        self.status = Status::Sending;
        self.token = Some(fresh);
        self.lease = Lease::Live;
        Claimed::Ours
    }

    /// Ends it without an answer. The token stays: its holder may know better.
    fn end(&mut self, status: Status, reason: Option<Reason>) {
        self.status = status;
        self.reason = reason;
        self.lease = Lease::None;
    }

    /// Marks that a call is about to be made which must not be repeated. Where it says no, the call must not be made.
    #[must_use]
    pub fn mark(&mut self, token: Token) -> bool {
        let holds = self.status == Status::Sending && self.token == Some(token) && self.lease == Lease::Live;
        self.calling |= holds;
        holds
    }

    /// Writes what an answer leads to; false where the claim does not hold any more. It holds beyond its lease until
    /// another claim is made, and against an end that was given without an answer.
    #[must_use]
    pub fn settle(&mut self, token: Token, attempt: u32, after: After) -> bool {
        let is_open = match self.status {
            Status::Sending => true,
            Status::Unknown => self.calling,
            Status::Cancelled | Status::Expired | Status::Skipped => !self.made,
            _ => false,
        };
        if self.token != Some(token) || self.attempt != attempt || !is_open {
            return false;
        }
        let is_cancelled = matches!(self.stop, Some((Status::Cancelled, _)));
        (self.status, self.reason) = match after {
            After::End(status, reason) => (status, reason),
            After::Retry | After::Park if is_cancelled => (Status::Cancelled, Some(Reason::RequestCancelled)),
            After::Retry => (Status::Retrying, None),
            After::Park => (Status::Parked, Some(Reason::RetriesExhausted)),
        };
        let goes_on = matches!(self.status, Status::Retrying | Status::Parked);
        self.attempt += u32::from(goes_on);
        self.made = !goes_on;
        self.calling = false;
        self.lease = Lease::None;
        true
    }

    /// Takes note of a receipt for an attempt; false where it says nothing new.
    #[must_use]
    pub fn receipt(&mut self, attempt: u32, after: After) -> bool {
        if self.attempt != attempt || !matches!(self.status, Status::Sent | Status::Unknown) {
            return false;
        }
        self.status = Status::Sending;
        self.token.is_some_and(|token| self.settle(token, attempt, after))
    }

    /// What is to be told of an attempt that its teller did not settle.
    #[must_use]
    pub fn told_of(&self, attempt: u32) -> Status {
        let was_last =
            self.attempt == attempt || self.status == Status::Parked && self.attempt == attempt + 1;
        if was_last { self.status } else { Status::Retrying }
    }

    /// Time passes beyond the lease.
    pub fn lease_ends(&mut self) {
        if self.lease == Lease::Live {
            self.lease = Lease::Over;
        }
    }

    /// Cancels: ends what nobody holds, and keeps what is held or set aside from being tried again. What has ended
    /// stays, and cancelling again changes nothing.
    pub fn cancel(&mut self) {
        let is_over = self.status.is_terminal() && self.status != Status::Parked;
        if is_over || self.stop.is_some() {
            return;
        }
        let cancelled = (Status::Cancelled, Some(Reason::RequestCancelled));
        self.stop = Some(cancelled);
        if self.status != Status::Parked && self.lease != Lease::Live && !self.calling {
            self.end(cancelled.0, cancelled.1);
        }
    }
}
