//! The rows of deliveries, and the transactions that claim, mark and settle them. What they do to a row is
//! [`domain::protocol`]; around it is what PostgreSQL's clock and other tables say.

use std::time::Duration;

use domain::plan::PlannedDelivery;
use domain::protocol::{After, Claimed, Lease, Ledger, Token};
use domain::{Channel, Reason, SendId, Status, Timestamp, UserNumber};

use crate::mutant::Mutant;

/// How long a claim holds.
pub(crate) const LEASE: Duration = Duration::from_secs(90);

/// The end of what was for an erased person.
const ERASED: (Status, Option<Reason>) = (Status::Skipped, Some(Reason::RecipientErased));

/// A delivery.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) ledger: Ledger,
    pub(crate) send_id: SendId,
    pub(crate) recipient: u32,
    pub(crate) user: Option<UserNumber>,
    pub(crate) channel: Channel,
    pub(crate) target: String,
    pub(crate) expires_at: Option<Timestamp>,
    lease_until: Timestamp,
    pub(crate) provider: Option<&'static str>,
    /// When the latest claim was made, counted in moves.
    pub(crate) claimed_in: u64,
    /// How it ended by an answer.
    pub(crate) ended_as: Option<Status>,
}

/// What other tables say of a delivery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) erased: bool,
    pub(crate) cancelled: bool,
    pub(crate) suppressed: bool,
}

impl Row {
    pub(crate) fn new(
        send_id: SendId,
        recipient: u32,
        user: Option<UserNumber>,
        to: &PlannedDelivery,
        expires_at: Option<Timestamp>,
    ) -> Row {
        Row {
            ledger: Ledger::default(),
            send_id,
            recipient,
            user,
            channel: to.channel,
            target: to.target.clone(),
            expires_at,
            lease_until: Timestamp::from_millis(0),
            provider: None,
            claimed_in: 0,
            ended_as: None,
        }
    }

    /// Brings the row up to the present.
    pub(crate) fn refresh(&mut self, now: Timestamp, around: Surroundings) {
        if self.lease_until <= now {
            self.ledger.lease_ends();
        }
        self.ledger.stop = if around.erased {
            Some(ERASED)
        } else if around.cancelled {
            Some((Status::Cancelled, Some(Reason::RequestCancelled)))
        } else if self.expires_at.is_some_and(|at| at <= now) {
            Some((Status::Expired, None))
        } else if around.suppressed {
            Some((Status::Skipped, Some(Reason::Suppressed)))
        } else {
            None
        };
    }

    /// Claims an attempt. Returns, beside the answer, the claim that it took over from.
    pub(crate) fn claim(
        &mut self,
        attempt: u32,
        fresh: Token,
        offered: Option<&'static str>,
        now: Timestamp,
    ) -> (Claimed, Option<Token>) {
        let was_sending = self.ledger.status == Status::Sending;
        let before = self.ledger.token.filter(|_| was_sending);
        let claimed = self.ledger.claim(attempt, fresh);
        if claimed == Claimed::Ours {
            self.lease_until = now + LEASE;
            let keeps = was_sending && self.channel.is_repeatable();
            self.provider = if keeps { self.provider.or(offered) } else { offered };
        }
        let is_taken = claimed == Claimed::Ours || was_sending && self.ledger.status != Status::Sending;
        (claimed, before.filter(|_| is_taken))
    }

    /// How long another may hold it.
    pub(crate) fn leased_until(&self) -> Timestamp {
        self.lease_until
    }

    /// Marks the call.
    pub(crate) fn mark(&mut self, token: Token, mutant: Option<Mutant>) -> bool {
        if mutant == Some(Mutant::CallNotMarked) {
            return self.ledger.token == Some(token);
        }
        self.ledger.mark(token)
    }

    /// Settles the attempt.
    pub(crate) fn settle(
        &mut self,
        token: Token,
        attempt: u32,
        after: After,
        mutant: Option<Mutant>,
    ) -> bool {
        let token = match (mutant, self.ledger.token) {
            (Some(Mutant::SettleWithoutToken), Some(any)) => any,
            _ => token,
        };
        self.ledger.settle(token, attempt, after)
    }

    /// Ends what nobody is at work on, as its recipient is erased.
    pub(crate) fn erase(&mut self) {
        let waits = matches!(self.ledger.status, Status::Queued | Status::Retrying | Status::Parked);
        let is_left =
            self.ledger.status == Status::Sending && self.ledger.lease == Lease::Over && !self.ledger.calling;
        if waits || is_left {
            (self.ledger.status, self.ledger.reason) = ERASED;
            self.ledger.lease = Lease::None;
            // What was set aside had not ended for good.
            self.ended_as = None;
        }
    }

    /// Cancels.
    pub(crate) fn cancel(&mut self, mutant: Option<Mutant>) {
        self.ledger.stop = None;
        if mutant == Some(Mutant::CancelEnded) && self.ledger.lease != Lease::Live {
            self.ledger.status = Status::Cancelled;
            self.ledger.reason = Some(Reason::RequestCancelled);
        }
        self.ledger.cancel();
    }
}
