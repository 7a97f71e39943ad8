//! Record of a round: ledger, log, and the calls that providers received. The record is plain data, so that the tests of the
//! checks can falsify it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::Timestamp;
use stand_ins::faults::{Call, Fault};

/// All data that the checks of a round read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Deliveries by id.
    pub(crate) deliveries: BTreeMap<String, Delivery>,
    /// Providers by identifier.
    pub(crate) providers: BTreeMap<String, ProviderView>,
    pub(crate) suppressions: BTreeMap<Target, Suppression>,
    pub(crate) requests: Vec<Request>,
}

/// A channel, and an address, number, token or endpoint on it.
pub(crate) type Target = (String, String);

/// A delivery in the ledger, with its attempts, claims and outcome events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) target: Target,
    /// Title of the send.
    pub(crate) notice: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    /// Number of the last attempt, or of the attempt that was due next if the delivery ended before it was made.
    pub(crate) attempt: i32,
    /// Attempts in the order of their numbers.
    pub(crate) attempts: Vec<Attempt>,
    /// Times of claims.
    pub(crate) claimed_at: Vec<Timestamp>,
    /// Outcome events, in the order of the log.
    pub(crate) reported: Vec<ReportedOutcome>,
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
    /// Returns true if the worker did not call the provider, because PostgreSQL was too slow on a busy machine.
    pub(crate) fn was_not_made(&self) -> bool {
        (self.outcome.as_str(), self.code.as_str()) == ("retry", "database")
    }

    /// Returns true if the worker did not call the push service, because another delivery had already found that the browser is
    /// gone.
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

#[derive(Clone, Debug)]
pub(crate) struct Suppression {
    /// Time of the suppression's event. The event is created after the suppression is committed. None if the log has no event.
    pub(crate) committed_by: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) notice: String,
    pub(crate) recipients: usize,
    /// Counts that the API reports, by channel and status.
    pub(crate) counts: BTreeMap<String, BTreeMap<String, i64>>,
    /// Number of skipped recipients in the plans, by channel and reason.
    pub(crate) skips: BTreeMap<Target, i64>,
}

/// Codes that attempts record for the answers from a provider.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codes {
    pub(crate) temporary: &'static str,
    pub(crate) busy: &'static str,
    pub(crate) gone: &'static str,
    /// Codes of an attempt that received no answer, or only a part of one.
    pub(crate) lost: &'static [&'static str],
    /// Codes of an attempt while the provider is down.
    pub(crate) down: &'static [&'static str],
}

/// Calls and messages that a provider received.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderView {
    pub(crate) channel: String,
    /// Prefix of the provider's targets in the ledger, such as `apns:`.
    pub(crate) prefix: &'static str,
    pub(crate) codes: Codes,
    /// True if concurrent calls share one connection, so that a cut affects other calls too.
    pub(crate) multiplexed: bool,
    /// True if the provider de-duplicates calls for the same delivery, so that an attempt with an unknown outcome may be
    /// repeated.
    pub(crate) keyed: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) taken: Vec<AcceptedMessage>,
    /// Start and end of the time in which the provider was down.
    pub(crate) down: Option<(Timestamp, Timestamp)>,
}

#[derive(Clone, Debug)]
pub(crate) struct AcceptedMessage {
    pub(crate) target: String,
    pub(crate) notice: String,
    /// Delivery id in the message, if the protocol has a place for it.
    pub(crate) delivery: Option<String>,
}

impl ProviderView {
    /// Returns a target of the provider as the ledger names it.
    pub(crate) fn target(&self, named: &str) -> Target {
        (self.channel.clone(), format!("{}{named}", self.prefix))
    }

    /// Returns the targets that the provider reported as dead, as the ledger names them.
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

    /// Returns the ids of deliveries by target and title.
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
            write!(f, "\n  {name}: {} calls, {} accepted, {faults:?}", seen.calls.len(), seen.taken.len())?;
        }
        Ok(())
    }
}
