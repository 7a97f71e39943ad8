//! Stand-ins with random faults. They run in their own process, so that they survive when a test kills Tidings.

use std::fs::OpenOptions;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::json;

use crate::faults::{Faults, Shares};
use crate::http::{self, Answers, Rule, status};
use crate::outbox::Outbox;
use crate::providers::Providers;
use crate::{apns, fcm, smtp, twilio};

pub const SHARES: Shares = Shares {
    temporary: 0.02,
    busy: 0.005,
    gone: 0.01,
    cut_before: 0.003,
    cut_after: 0.003,
    refused: 0.003,
    pause: 0.0003,
    stall: 0.001,
};

const DEALT_EVERY: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// Starts providers of every channel. `seed` determines their faults. Before a provider confirms a message, it appends
/// a line to the file `accepted` (see [`Outbox::listed`]). It appends each fault to the file `faults` (see
/// [`Faults::listed`]).
///
/// # Errors
/// Returns an error if a file cannot be opened, or if no port is free.
pub async fn start(seed: u64, shares: Shares, accepted: &Path, faults: &Path) -> io::Result<Providers> {
    let faults = Arc::new(OpenOptions::new().create(true).append(true).open(faults)?);
    let providers = Providers::start(Outbox::listed(accepted)?).await?;
    fail_by_chance(&providers, |number| {
        let faults = Faults::new(seed.wrapping_add(number), shares).listed(faults.clone());
        Arc::new(faults.with_scheduled_faults(DEALT_EVERY))
    });
    Ok(providers)
}

fn fail_by_chance(providers: &Providers, faults: impl Fn(u64) -> Arc<Faults>) {
    providers.smtp.script(smtp::Rule::by_chance(faults(1)));
    providers.push_service.script(Rule::by_chance(faults(2), answers([503, 429, 410, 400, 403].map(status))));
    let [temporary, busy, gone, refused, pause] = [
        (503, "ServiceUnavailable"),
        (429, "TooManyRequests"),
        (400, "BadDeviceToken"),
        (400, "BadPriority"),
        (403, "InvalidProviderToken"),
    ]
    .map(|(status, reason)| apns::refusal(status, reason, None));
    providers.apns.script(Rule::by_chance(faults(3), answers([temporary, busy, gone, refused, pause])));
    let of_fcm = [
        (503, "UNAVAILABLE"),
        (429, "QUOTA_EXCEEDED"),
        (404, "UNREGISTERED"),
        (400, "INVALID_ARGUMENT"),
        (401, "THIRD_PARTY_AUTH_ERROR"),
    ];
    let of_fcm = of_fcm.map(|(status, code)| fcm::refusal(status, code, &[]));
    providers.fcm.script(Rule::by_chance(faults(4), answers(of_fcm)));
    let of_twilio = [
        (429, 20429, "Too many requests"),
        (429, 20429, "Too many requests"),
        (400, 21211, "No such number"),
        (400, 30007, "Filtered"),
        (401, 20003, "Authenticate"),
    ];
    let of_twilio = of_twilio.map(|(status, code, words)| twilio::refusal(status, code, words));
    providers.twilio.script(Rule::by_chance(faults(5), answers(of_twilio)));
    let dead = http::json(400, &json!({"error": {"code": "invalid_number"}}));
    let of_http = [status(408), status(429), dead, status(400), status(401)];
    providers.sms_http.script(Rule::by_chance(faults(6), answers(of_http)));
}

/// Adds `Retry-After: 1` to the answer for `Busy`.
pub(crate) fn answers([temporary, mut busy, gone, refused, pause]: [Response<Bytes>; 5]) -> Answers {
    busy.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
    Answers { temporary, busy, gone, refused, pause, down: status(502) }
}
