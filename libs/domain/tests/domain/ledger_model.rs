//! The protocol by which a delivery is claimed, called and settled, as a pure state machine: the effect of each statement
//! of the ledger on one delivery. One test compares the store's statements with it; another searches it for interleavings
//! of workers, crashes and pauses that break a guarantee.

#![allow(dead_code, reason = "each of the two tests uses a part")]

use domain::{Reason, Status};

/// Identifies a claim.
pub(crate) type Token = u32;

/// State of a delivery's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    /// No worker holds the delivery.
    None,
    /// The worker with the token holds it.
    Live,
    /// The lease has expired; the worker with the token may not have noticed.
    Over,
}

/// The columns of a delivery's row that the protocol uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    /// The next attempt, the one in progress, or the last one.
    pub(crate) attempt: u32,
    /// Token of the latest claim.
    pub(crate) token: Option<Token>,
    /// State of that claim's lease.
    pub(crate) lease: Lease,
    /// True if the claim's call was marked.
    pub(crate) calling: bool,
    /// True if the attempt has been settled.
    pub(crate) made: bool,
    /// State with which the next claim ends the delivery: cancelled, expired, erased or suppressed.
    pub(crate) stop: Option<(Status, Option<Reason>)>,
}

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClaimResult {
    /// The attempt may be made.
    Ours,
    /// The delivery has ended, or is at a later attempt.
    Done,
    /// Another worker may be making the attempt.
    Leased,
    /// The job is ahead of the ledger.
    Missing,
}

/// The step after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NextStep {
    /// The delivery ends.
    End(Status, Option<Reason>),
    /// Another attempt.
    Retry,
    /// The delivery is parked.
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
    /// Claims the delivery for one attempt.
    pub(crate) fn claim(&mut self, attempt: u32, fresh: Token) -> ClaimResult {
        if self.status.is_terminal() || self.attempt > attempt {
            return ClaimResult::Done;
        }
        if self.attempt < attempt {
            return ClaimResult::Missing;
        }
        if self.lease == Lease::Live {
            return ClaimResult::Leased;
        }
        if self.calling {
            self.end(Status::Unknown, Some(Reason::OutcomeUnknown));
            return ClaimResult::Done;
        }
        if let Some((status, reason)) = self.stop {
            self.end(status, reason);
            return ClaimResult::Done;
        }
        self.status = Status::Sending;
        self.token = Some(fresh);
        self.lease = Lease::Live;
        ClaimResult::Ours
    }

    /// Ends the delivery without an answer. The token stays: its holder may still report the real outcome.
    fn end(&mut self, status: Status, reason: Option<Reason>) {
        self.status = status;
        self.reason = reason;
        self.lease = Lease::None;
    }

    /// Marks that a call follows which must not be repeated. If this returns false, the call must not be made.
    #[must_use]
    pub(crate) fn mark(&mut self, token: Token) -> bool {
        let holds = self.status == Status::Sending && self.token == Some(token) && self.lease == Lease::Live;
        self.calling |= holds;
        holds
    }

    /// Records the result of an answer; returns false if the claim is no longer valid. A claim stays valid beyond its lease
    /// until another claim is made, and overrides an end that was recorded without an answer.
    #[must_use]
    pub(crate) fn settle(&mut self, token: Token, attempt: u32, after: NextStep) -> bool {
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
            NextStep::End(status, reason) => (status, reason),
            NextStep::Retry | NextStep::Park if is_cancelled => {
                (Status::Cancelled, Some(Reason::RequestCancelled))
            }
            NextStep::Retry => (Status::Retrying, None),
            NextStep::Park => (Status::Parked, Some(Reason::RetriesExhausted)),
        };
        let has_next_attempt = matches!(self.status, Status::Retrying | Status::Parked);
        self.attempt += u32::from(has_next_attempt);
        self.made = !has_next_attempt;
        self.calling = false;
        self.lease = Lease::None;
        true
    }

    /// Records a receipt for an attempt; returns false if it adds nothing.
    #[must_use]
    pub(crate) fn receipt(&mut self, attempt: u32, after: NextStep) -> bool {
        if self.attempt != attempt || !matches!(self.status, Status::Sent | Status::Unknown) {
            return false;
        }
        self.status = Status::Sending;
        self.token.is_some_and(|token| self.settle(token, attempt, after))
    }

    /// Returns the status to publish for an attempt that the publisher did not settle itself.
    #[must_use]
    pub(crate) fn published_status(&self, attempt: u32) -> Status {
        let was_last =
            self.attempt == attempt || self.status == Status::Parked && self.attempt == attempt + 1;
        if was_last { self.status } else { Status::Retrying }
    }

    /// Lets the lease expire.
    pub(crate) fn lease_ends(&mut self) {
        if self.lease == Lease::Live {
            self.lease = Lease::Over;
        }
    }

    /// Cancels the delivery: ends it if no worker holds it, and otherwise prevents further attempts, also if it is parked. A
    /// delivery that has ended stays as it is, and cancelling again changes nothing.
    pub(crate) fn cancel(&mut self) {
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
