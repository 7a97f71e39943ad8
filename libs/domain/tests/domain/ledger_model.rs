//! Model of the delivery ledger: a pure state machine of the protocol by which workers claim a delivery, call the provider and
//! settle the outcome. Each method has the effect of one SQL statement on one delivery. One test compares the statements with
//! this model. Another test searches the model for interleavings of workers, crashes and pauses that break a guarantee. The model
//! checks every change of the status against the table of legal transitions.

#![allow(dead_code, reason = "each of the two tests uses a part")]

use domain::transition::Step;
use domain::{Reason, Status};

/// Identifies a claim.
pub(crate) type Token = u32;

/// State of a delivery's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    /// No worker holds the delivery.
    None,
    /// The worker with the token holds the delivery.
    Live,
    /// The lease has expired, but the worker with the token may not have noticed this.
    Over,
}

/// The columns of a delivery's row that the protocol uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    /// Attempt number: of the next attempt while the delivery waits, of the current one while it is being sent, otherwise of the
    /// last.
    pub(crate) attempt: u32,
    /// Token of the latest claim.
    pub(crate) token: Option<Token>,
    /// State of the lease of the latest claim.
    pub(crate) lease: Lease,
    /// True if the worker has set the mark that precedes a call that must not be repeated.
    pub(crate) calling: bool,
    /// True if the attempt has been settled.
    pub(crate) made: bool,
    /// Status and reason with which the next claim must end the delivery, for example after a cancellation. None if the delivery
    /// may be attempted.
    pub(crate) stop: Option<(Status, Option<Reason>)>,
}

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClaimResult {
    /// The attempt may be made.
    Granted,
    /// The delivery has ended, or is at a later attempt.
    NotDue,
    /// Another worker may be making the attempt.
    Leased,
    /// The attempt of the job is later than the attempt in the ledger.
    Missing,
}

/// The step after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NextStep {
    /// The delivery ends.
    End(Status, Option<Reason>),
    /// Another attempt follows.
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
            return ClaimResult::NotDue;
        }
        if self.attempt < attempt {
            return ClaimResult::Missing;
        }
        if self.lease == Lease::Live {
            return ClaimResult::Leased;
        }
        if self.calling {
            self.end(Step::Refuse, (Status::Unknown, Some(Reason::OutcomeUnknown)));
            return ClaimResult::NotDue;
        }
        if let Some(state) = self.stop {
            self.end(Step::Refuse, state);
            return ClaimResult::NotDue;
        }
        self.change(Step::Claim, (Status::Sending, self.reason));
        self.token = Some(fresh);
        self.lease = Lease::Live;
        ClaimResult::Granted
    }

    fn change(&mut self, step: Step, (status, reason): (Status, Option<Reason>)) {
        assert!(step.allows(self.status, status), "{step:?} from {} to {status}", self.status);
        (self.status, self.reason) = (status, reason);
    }

    /// Ends the delivery without an answer. The token stays, because the worker that holds it may still report the real outcome.
    fn end(&mut self, step: Step, state: (Status, Option<Reason>)) {
        self.change(step, state);
        self.lease = Lease::None;
    }

    /// Sets the mark before a call that must not be repeated. If this returns false, the worker must not make the call.
    #[must_use]
    pub(crate) fn mark(&mut self, token: Token) -> bool {
        let holds = self.status == Status::Sending && self.token == Some(token) && self.lease == Lease::Live;
        self.calling |= holds;
        holds
    }

    /// Extends the lease of a claim during its call. A lease that has ended is revived, if no other worker has claimed the delivery
    /// since. Returns false if the claim is no longer valid.
    #[must_use]
    pub(crate) fn renew(&mut self, token: Token) -> bool {
        let holds = self.status == Status::Sending && self.token == Some(token);
        if holds {
            self.lease = Lease::Live;
        }
        holds
    }

    /// Gives a claim back, so that the same attempt can be claimed again. Returns false if another worker has the claim, or the
    /// provider may have been called under it. If the claim took over an expired one, the delivery remains as it was when that one
    /// expired.
    #[must_use]
    pub(crate) fn release(&mut self, token: Token, takes_over: bool) -> bool {
        let holds = self.status == Status::Sending && self.token == Some(token) && !self.calling;
        if holds && takes_over {
            (self.token, self.lease) = (None, Lease::Over);
        } else if holds {
            let waiting = if self.attempt == 1 { Status::Queued } else { Status::Retrying };
            self.change(Step::GiveBack, (waiting, self.reason));
            (self.token, self.lease) = (None, Lease::None);
        }
        holds
    }

    /// Records the result of an answer. Returns false if the claim is no longer valid. A claim stays valid beyond its lease until
    /// another claim is made. If the delivery has already ended without an answer, the result replaces its status.
    #[must_use]
    pub(crate) fn settle(&mut self, token: Token, attempt: u32, after: NextStep) -> bool {
        let step = match self.status {
            Status::Sending => Step::Settle,
            Status::Unknown if self.calling => Step::Correct,
            status if Status::CORRECTABLE.contains(&status) && !self.made => Step::Correct,
            _ => return false,
        };
        if self.token != Some(token) || self.attempt != attempt {
            return false;
        }
        self.follow(step, after);
        true
    }

    fn follow(&mut self, step: Step, after: NextStep) {
        let is_cancelled = matches!(self.stop, Some((Status::Cancelled, _)));
        let state = match after {
            NextStep::End(status, reason) => (status, reason),
            NextStep::Retry | NextStep::Park if is_cancelled => {
                (Status::Cancelled, Some(Reason::RequestCancelled))
            }
            NextStep::Retry => (Status::Retrying, None),
            NextStep::Park => (Status::Parked, Some(Reason::RetriesExhausted)),
        };
        self.change(step, state);
        let has_next_attempt = Status::CONTINUED.contains(&self.status);
        self.attempt += u32::from(has_next_attempt);
        self.made = !has_next_attempt;
        self.calling = false;
        self.lease = Lease::None;
    }

    /// Records a receipt for an attempt. Returns false if the receipt changes nothing.
    #[must_use]
    pub(crate) fn receipt(&mut self, attempt: u32, after: NextStep) -> bool {
        if self.attempt != attempt || !Step::Report.starts_from(self.status) {
            return false;
        }
        self.follow(Step::Report, after);
        true
    }

    /// Returns the status that a worker publishes for an attempt that another worker has settled.
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

    /// Cancels the delivery. If a worker holds the delivery, or if it is parked, this only prevents further attempts. Otherwise
    /// the delivery ends at once. If it is cancelled already and waits again, it ends.
    pub(crate) fn cancel(&mut self) {
        let is_over = self.status.is_terminal() && self.status != Status::Parked;
        let cancelled = (Status::Cancelled, Some(Reason::RequestCancelled));
        if is_over || self.stop.is_some() {
            if self.stop == Some(cancelled) && Status::WAITING.contains(&self.status) {
                self.end(Step::Cancel, cancelled);
            }
            return;
        }
        self.stop = Some(cancelled);
        if self.status != Status::Parked && self.lease != Lease::Live && !self.calling {
            self.end(Step::Cancel, cancelled);
        }
    }
}
