//! Why a call to a provider is postponed, and until when.

use std::time::Duration;

use domain::{Reason, Timestamp};
use service_kit::clock;

/// Minimum delay of a retry; the maximum is twice as long.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Refusal {
    pub(crate) at: Timestamp,
    pub(crate) cause: &'static str,
    pub(crate) reason: Reason,
    pub(crate) provider: Option<String>,
    /// Code of the answer that opened the breaker.
    pub(crate) code: Option<String>,
}

impl Refusal {
    /// Refuses for `pause`, or up to twice as long.
    pub(crate) fn after(pause: Duration, cause: &'static str) -> Refusal {
        let reason = Reason::ProviderBusy;
        Refusal { at: clock::now() + pause + spread(pause), cause, reason, provider: None, code: None }
    }

    /// `provider` is the one that may be called first, with the code of the failure that opened its breaker.
    pub(crate) fn closed_until(
        until: Timestamp,
        now: Timestamp,
        provider: Option<(String, Option<String>)>,
    ) -> Refusal {
        let (provider, code) = provider.unzip();
        Refusal {
            at: until + spread(until.since(now) / 10 + BUSY_PAUSE),
            cause: "breaker",
            reason: Reason::BreakerOpen,
            provider,
            code: code.flatten(),
        }
    }

    pub(crate) fn rate_limited(at: Timestamp) -> Refusal {
        Refusal { at, cause: "rate", reason: Reason::RateLimited, provider: None, code: None }
    }

    /// Names the provider that refused, if none is named.
    pub(crate) fn of(self, provider: &str) -> Refusal {
        Refusal { provider: self.provider.or_else(|| Some(provider.to_owned())), ..self }
    }

    pub(crate) fn busy() -> Refusal {
        Refusal::after(BUSY_PAUSE, "busy")
    }
}

/// Random delay, so that jobs that are postponed together are not retried together.
fn spread(over: Duration) -> Duration {
    over.mul_f64(clock::random())
}
