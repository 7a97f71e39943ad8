use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::problem::joined;
use domain::web_push::{MAX_TTL, Urgency, WebPushOptions};
use domain::{Answer, Lane, Outcome, Problem, Reason, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::Value;
use worker::{Attempt, Call, Probe, ProviderKind};

use crate::answers;
use crate::authorization::{AuthorizationError, Signer};
use crate::call::Message;
use crate::push_services::{Push, PushServices};
use crate::settings::VapidSettings;

/// No push service has this origin.
const NOWHERE: &str = "https://push.invalid";

pub struct Vapid;

impl ProviderKind for Vapid {
    type Resources = PushServices;
    type Settings = VapidSettings;

    const NAME: &'static str = "vapid";
    const SECRETS: &'static [&'static str] = &[];
    const EXAMPLE: &'static str = r#"{
      "subject": "mailto:push@example.com",   contact for operators of push services: mailto: or https:
      "ttl": 86400,                optional: seconds for which push services keep a message for an offline browser
      "urgency": "normal"          optional: very-low, low, normal or high; default: high for transactional, normal for bulk
    }"#;

    fn parse(settings: &Value) -> Result<VapidSettings, Vec<Problem>> {
        VapidSettings::parse(settings)
    }

    async fn send(attempt: Attempt<'_, PushServices>, settings: &VapidSettings) -> Answer {
        let Attempt { resources: services, call, input: push } = attempt;
        match send(services, settings, call, &push).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    /// Checks the settings, and that the public key verifies a signature of the app's key pair. No push service is called, because every
    /// call needs a subscription.
    async fn probe(settings: &VapidSettings, probe: &Probe<'_>) -> Result<String, Answer> {
        let Some((store, master_key)) = probe.installation else {
            return Err(Answer::new(Outcome::Failed, "untested", "the test needs access to the database"));
        };
        let signer = Signer::load(store, master_key, probe.provider.app).await;
        let signer = signer.map_err(|error| unauthorized(&error))?;
        prove(&signer, settings, probe.now)
    }
}

fn prove(signer: &Signer, settings: &VapidSettings, now: Timestamp) -> Result<String, Answer> {
    let refused = |what: &dyn ToString| Answer::new(Outcome::PauseProvider, "vapid_key", what.to_string());
    let token = signer.token(&settings.subject, NOWHERE, now).map_err(|error| refused(&error))?;
    let point = URL_SAFE_NO_PAD.decode(signer.public_key()).map_err(|error| refused(&error))?;
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&[NOWHERE]);
    // Do not check the expiry: the library would compare it with the system clock, which may differ from `now`.
    validation.validate_exp = false;
    decode::<Value>(&token, &DecodingKey::from_ec_der(&point), &validation)
        .map_err(|error| refused(&error))?;
    Ok(format!(
        "the app's key pair signs, and the public key {} that browsers subscribe with verifies the signature; \
         no push service was called, because every call needs a subscription",
        signer.public_key()
    ))
}

/// The error is the answer of an attempt that ended before the push service was called.
async fn send(
    services: &PushServices,
    settings: &VapidSettings,
    call: &Call<'_>,
    push: &Push<'_>,
) -> Result<Answer, Answer> {
    let Call { app, provider, job, now, .. } = *call;
    let mut problems = Vec::new();
    let path = "override.channel.webPush";
    let options = WebPushOptions::parse(push.content.options.clone(), path, &mut problems);
    if !problems.is_empty() {
        return Err(Answer::refused(Reason::InvalidContent, "override", joined(&problems)));
    }
    let origin = services.origin(&job.target)?;
    let (body, cut) = services.body(call, push).await?;
    let authorization = services.authorizations.header(app, &settings.subject, origin, now).await;
    let message = Message {
        endpoint: &job.target,
        authorization: authorization.map_err(|error| unauthorized(&error))?,
        ttl: ttl(&options, settings, job.expires_at, now),
        urgency: urgency(&options, settings, call.lane),
        // Every attempt has the same topic, so a retry replaces a copy that was not delivered yet.
        topic: options.topic.unwrap_or_else(|| job.delivery_id.0.simple().to_string()),
        body,
    };
    let answer = answers::answer(&services.client.push(message, now).await, &job.target);
    Ok(services.doubts.settle(provider, origin, job.user, answer).await.noting(cut))
}

/// Time in seconds, at most until the delivery expires.
fn ttl(
    options: &WebPushOptions,
    settings: &VapidSettings,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> u32 {
    let left = expires_at.map(|at| u32::try_from(at.since(now).as_secs()).unwrap_or(MAX_TTL));
    match (options.ttl, left) {
        (Some(wanted), Some(left)) => wanted.min(left),
        (Some(wanted), None) => wanted,
        (None, Some(left)) => left.min(MAX_TTL),
        (None, None) => settings.ttl.unwrap_or(MAX_TTL),
    }
}

fn urgency(options: &WebPushOptions, settings: &VapidSettings, lane: Lane) -> Urgency {
    let by_lane = match lane {
        Lane::Transactional => Urgency::High,
        Lane::Bulk => Urgency::Normal,
    };
    options.urgency.or(settings.urgency).unwrap_or(by_lane)
}

fn unauthorized(error: &AuthorizationError) -> Answer {
    let outcome = match error {
        AuthorizationError::Key(_) => Outcome::RETRY,
        AuthorizationError::NoKey | AuthorizationError::Unsigned(_) | AuthorizationError::NoHeader(_) => {
            Outcome::PauseProvider
        }
    };
    Answer::new(outcome, "vapid_key", error.to_string())
}
