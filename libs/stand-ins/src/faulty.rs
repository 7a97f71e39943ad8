//! Providers of every channel with random faults, in a separate process, so that they continue to run when Tidings is killed.

use std::fs::OpenOptions;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Value, json};

use crate::apns::{self, ApnsSettings, ApnsStandIn};
use crate::faults::{Faults, Shares};
use crate::fcm::{self, FcmStandIn};
use crate::http::{self, Answers, HttpSettings, Rule, status};
use crate::outbox::Outbox;
use crate::push_service::PushServiceStandIn;
use crate::sms_http::SmsHttpStandIn;
use crate::smtp::{self, SmtpSettings, SmtpStandIn};
use crate::twilio::{self, TwilioSettings, TwilioStandIn};

/// Default shares of faults.
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

/// One call in 100 fails with the next fault of a fixed list; see [`Faults::with_scheduled_faults`].
const DEALT_EVERY: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// Running providers.
#[derive(Debug)]
pub struct FaultyProviders {
    smtp: SmtpStandIn,
    push_service: PushServiceStandIn,
    apns: ApnsStandIn,
    fcm: FcmStandIn,
    twilio: TwilioStandIn,
    sms_http: SmsHttpStandIn,
}

impl FaultyProviders {
    /// Starts the providers. `seed` determines the faults of each. Before a provider confirms a message, it appends a line to the
    /// file `accepted` (see [`Outbox::listed`]); it appends each fault to the file `faults` (see [`Faults::listed`]).
    ///
    /// # Errors
    /// A file cannot be opened, or no port is free.
    pub async fn start(seed: u64, shares: Shares, accepted: &Path, faults: &Path) -> io::Result<Self> {
        let outbox = Outbox::listed(accepted)?;
        let faults = Arc::new(OpenOptions::new().create(true).append(true).open(faults)?);
        let twilio = TwilioSettings { reports: false, ..TwilioSettings::default() };
        let providers = FaultyProviders {
            smtp: SmtpStandIn::start(SmtpSettings::default(), outbox.clone()).await?,
            push_service: PushServiceStandIn::start(HttpSettings::default(), outbox.clone()).await?,
            apns: ApnsStandIn::start(ApnsSettings::default(), outbox.clone()).await?,
            fcm: FcmStandIn::start(0, outbox.clone()).await?,
            twilio: TwilioStandIn::start(twilio, outbox.clone()).await?,
            sms_http: SmsHttpStandIn::start(0, outbox).await?,
        };
        providers.fail_by_chance(|number| {
            let faults = Faults::new(seed.wrapping_add(number), shares).listed(faults.clone());
            Arc::new(faults.with_scheduled_faults(DEALT_EVERY))
        });
        Ok(providers)
    }

    fn fail_by_chance(&self, faults: impl Fn(u64) -> Arc<Faults>) {
        self.smtp.script(smtp::Rule::by_chance(faults(1)));
        self.push_service.script(Rule::by_chance(faults(2), answers([503, 429, 410, 400, 403].map(status))));
        let [temporary, busy, gone, refused, pause] = [
            (503, "ServiceUnavailable"),
            (429, "TooManyRequests"),
            (400, "BadDeviceToken"),
            (400, "BadPriority"),
            (403, "InvalidProviderToken"),
        ]
        .map(|(status, reason)| apns::refusal(status, reason, None));
        self.apns.script(Rule::by_chance(faults(3), answers([temporary, busy, gone, refused, pause])));
        let of_fcm = [
            (503, "UNAVAILABLE"),
            (429, "QUOTA_EXCEEDED"),
            (404, "UNREGISTERED"),
            (400, "INVALID_ARGUMENT"),
            (401, "THIRD_PARTY_AUTH_ERROR"),
        ];
        let of_fcm = of_fcm.map(|(status, code)| fcm::refusal(status, code, &[]));
        self.fcm.script(Rule::by_chance(faults(4), answers(of_fcm)));
        let of_twilio = [
            (429, 20429, "Too many requests"),
            (429, 20429, "Too many requests"),
            (400, 21211, "No such number"),
            (400, 30007, "Filtered"),
            (401, 20003, "Authenticate"),
        ];
        let of_twilio = of_twilio.map(|(status, code, words)| twilio::refusal(status, code, words));
        self.twilio.script(Rule::by_chance(faults(5), answers(of_twilio)));
        let dead = http::json(400, &json!({"error": {"code": "invalid_number"}}));
        let of_http = [status(408), status(429), dead, status(400), status(401)];
        self.sms_http.script(Rule::by_chance(faults(6), answers(of_http)));
    }

    /// Origin of the push service of browsers.
    #[must_use]
    pub fn push_origin(&self) -> String {
        self.push_service.url()
    }

    /// Documents of the providers for `tidings provider set`. The HTTP provider for SMS de-duplicates by idempotency key, but its
    /// document does not declare this (`idempotent` is false), so workers must not retry unknown outcomes.
    #[must_use]
    pub fn documents(&self) -> Vec<Value> {
        let smtp = json!({
            "host": "127.0.0.1", "port": self.smtp.address().port(), "security": "none", "from": "shop@example.com",
        });
        let mut sms_http = self.sms_http.provider_settings();
        sms_http["idempotent"] = false.into();
        [
            ("smtp", "email", "smtp", smtp),
            ("vapid", "webPush", "vapid", json!({"subject": "mailto:push@example.com"})),
            ("apns", "mobilePush", "apns", self.apns.provider_settings()),
            ("fcm", "mobilePush", "fcm", self.fcm.provider_settings()),
            ("twilio", "sms", "twilio", self.twilio.provider_settings()),
            ("sms-http", "sms", "http", sms_http),
        ]
        .map(|(identifier, channel, kind, settings)| {
            json!({"identifier": identifier, "channel": channel, "kind": kind, "settings": settings})
        })
        .into()
    }
}

/// Builds the answers for the faults `Temporary`, `Busy`, `Gone`, `Refused` and `Pause`. The answer for `Busy` gets `Retry-After:
/// 1`.
pub(crate) fn answers([temporary, mut busy, gone, refused, pause]: [Response<Bytes>; 5]) -> Answers {
    busy.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
    Answers { temporary, busy, gone, refused, pause, down: status(502) }
}
