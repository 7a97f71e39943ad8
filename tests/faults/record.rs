//! Record of a round: ledger, log, and the calls that providers received. Plain data, so that a test can falsify it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::Timestamp;
use stand_ins::faults::{Call, Fault};

/// All of a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// By id.
    pub(crate) deliveries: BTreeMap<String, Delivery>,
    /// By identifier.
    pub(crate) providers: BTreeMap<String, ProviderView>,
    pub(crate) suppressions: BTreeMap<Target, Suppression>,
    pub(crate) requests: Vec<Request>,
}

/// A channel and an address, token or subscription on it.
pub(crate) type Target = (String, String);

/// A row of the ledger, with everything that hangs on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) target: Target,
    /// Title of the notice.
    pub(crate) notice: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    /// Number of the last attempt, or of the one that was not made.
    pub(crate) attempt: i32,
    /// By number.
    pub(crate) attempts: Vec<Attempt>,
    /// Times of claims.
    pub(crate) claimed_at: Vec<Timestamp>,
    /// Outcome events, in the order of the log.
    pub(crate) told: Vec<ReportedOutcome>,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) number: i32,
    pub(crate) provider: Option<String>,
    pub(crate) outcome: String,
    pub(crate) code: String,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Timestamp,
}

impl Attempt {
    /// On a busy machine our own database was too slow, before the provider was called.
    pub(crate) fn was_not_made(&self) -> bool {
        (self.outcome.as_str(), self.code.as_str()) == ("retry", "database")
    }

    /// The browser was found gone before its push service was called: another delivery had learnt it meanwhile.
    pub(crate) fn found_gone(&self) -> bool {
        (self.outcome.as_str(), self.code.as_str()) == ("failed", "unsubscribed")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedOutcome {
    pub(crate) attempt: i32,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
}

/// A target that the service calls dead.
#[derive(Clone, Debug)]
pub(crate) struct Suppression {
    /// By now it was committed: the event that follows was made. None where there is no such event.
    pub(crate) committed_by: Option<Timestamp>,
}

/// A send.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) notice: String,
    pub(crate) recipients: usize,
    /// What the API says, by channel and status.
    pub(crate) counts: BTreeMap<String, BTreeMap<String, i64>>,
    /// What planning decided against, by channel and reason.
    pub(crate) skips: BTreeMap<Target, i64>,
}

/// How a provider says something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codes {
    pub(crate) temporary: &'static str,
    pub(crate) busy: &'static str,
    pub(crate) gone: &'static str,
    /// Any of these where the caller heard nothing, or not enough.
    pub(crate) lost: &'static [&'static str],
    /// Any of these, while it is down.
    pub(crate) down: &'static [&'static str],
}

/// Calls and messages of a provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderView {
    pub(crate) channel: String,
    /// What stands before its names of targets in the ledger.
    pub(crate) prefix: &'static str,
    pub(crate) codes: Codes,
    /// Several calls go over one connection at a time, so that a cut hits more than its own.
    pub(crate) multiplexed: bool,
    /// It takes calls for the same delivery for one: what may have been taken can be asked for again.
    pub(crate) keyed: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) taken: Vec<AcceptedMessage>,
    /// When it was down.
    pub(crate) down: Option<(Timestamp, Timestamp)>,
}

/// A message that a provider took.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedMessage {
    pub(crate) target: String,
    pub(crate) notice: String,
    /// The delivery that the message names, where its protocol has a place for that.
    pub(crate) delivery: Option<String>,
}

impl ProviderView {
    /// A target as the ledger names it.
    pub(crate) fn target(&self, named: &str) -> Target {
        (self.channel.clone(), format!("{}{named}", self.prefix))
    }

    /// Targets that it called dead, as the ledger names them.
    pub(crate) fn gone(&self) -> BTreeSet<Target> {
        let gone = self.calls.iter().filter(|call| call.fault == Some(Fault::Gone));
        gone.map(|call| self.target(&call.target)).collect()
    }
}

impl Record {
    /// Returns true if the outcome of the attempt is unknown and a retry is not allowed.
    pub(crate) fn is_lost(&self, delivery: &Delivery, attempt: &Attempt) -> bool {
        let provider = attempt.provider.as_ref().and_then(|name| self.providers.get(name));
        let is_keyed = provider.is_some_and(|seen| seen.keyed);
        attempt.outcome == "unknown" && delivery.target.0 == "sms" && !is_keyed
    }

    /// The deliveries by target and notice.
    pub(crate) fn by_content(&self) -> BTreeMap<(&Target, &str), &str> {
        self.deliveries
            .iter()
            .map(|(id, delivery)| ((&delivery.target, delivery.notice.as_str()), id.as_str()))
            .collect()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ends: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for delivery in self.deliveries.values() {
            *ends.entry((&delivery.status, delivery.reason.as_deref().unwrap_or("-"))).or_default() += 1;
        }
        let attempts: usize = self.deliveries.values().map(|delivery| delivery.attempts.len()).sum();
        write!(f, "{} deliveries, {attempts} attempts", self.deliveries.len())?;
        for ((status, reason), number) in ends {
            write!(f, ", {status} ({reason}) {number}")?;
        }
        for (name, seen) in &self.providers {
            let mut faults: BTreeMap<Fault, usize> = BTreeMap::new();
            for fault in seen.calls.iter().filter_map(|call| call.fault) {
                *faults.entry(fault).or_default() += 1;
            }
            write!(f, "\n  {name}: {} calls, {} taken, {faults:?}", seen.calls.len(), seen.taken.len())?;
        }
        Ok(())
    }
}
