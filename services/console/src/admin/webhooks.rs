//! Webhook endpoints of an app, and messages that Tidings gave up on.

use std::time::Duration;

use domain::Timestamp;
use domain::body::kind::{AnyText, List, Text, Whole};
use domain::body::words::OneOf;
use domain::webhook::WebhookEvent;
use operations::webhooks as cases;
use secrecy::ExposeSecret;
use serde::Serialize;
use store::webhooks::{Endpoint, FailedMessage};
use utoipa::ToSchema;
use uuid::Uuid;
use web::failure::Failure;
use web::vocabulary::{Count, Time};

use super::call::{Answer, Call};
use super::route::{Nothing, parameter};
use super::shape::{ChangedBody, Page};

const LONGEST_URL: usize = 2_048;
/// Maximum number of messages that a redelivery names.
const MOST_IDS: usize = 1_000;
const LONGEST_GRACE: i64 = 90 * 24 * 3_600;
const USUAL_GRACE: i64 = 24 * 3_600;

/// A webhook endpoint.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Endpoint)]
pub(super) struct EndpointBody {
    id: String,
    url: String,
    events: Vec<&'static str>,
    /// Only events since this time are reported.
    #[schema(value_type = Time)]
    since: Timestamp,
    /// Start of the current series of failed calls; null if the last call succeeded.
    #[schema(value_type = Option<Time>)]
    failing_since: Option<Timestamp>,
    /// Null if the endpoint is enabled.
    #[schema(value_type = Option<Time>)]
    disabled_at: Option<Timestamp>,
    disabled_reason: Option<String>,
    /// Number of valid secrets. Each of them signs every call.
    secrets: u32,
    /// Messages that wait to be sent; at most 100,000 are counted.
    #[schema(value_type = Count)]
    pending: u64,
    /// Messages that were given up; at most 100,000 are counted.
    #[schema(value_type = Count)]
    failed: u64,
}

/// An endpoint that was created or changed.
#[derive(Serialize, ToSchema)]
pub(super) struct PutEndpoint {
    id: String,
    /// In the spelling in which it is called.
    url: String,
    events: Vec<&'static str>,
    /// Signs the calls. Shown only once, for a new endpoint; otherwise null.
    secret: Option<String>,
}

/// A new secret of an endpoint.
#[derive(Serialize, ToSchema)]
pub(super) struct EndpointSecret {
    /// Shown only once.
    secret: String,
}

/// A message that Tidings gave up on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FailedMessage)]
pub(super) struct FailedMessageBody {
    id: String,
    endpoint_id: String,
    url: String,
    event: String,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Time)]
    given_up_at: Timestamp,
    attempts: u32,
    /// HTTP status of the last answer, or the error.
    last_answer: String,
}

domain::body! {
    /// An endpoint to create or change.
    pub(super) struct EndpointValues {
        required url: Text<LONGEST_URL>,
        /// Default: all events.
        optional events: List<OneOf<WebhookEvent>>,
    }
    example {"url": "https://shop.example.com/tidings", "events": ["delivery.failed"]}
}

domain::body! {
    /// Replacement of the secret of an endpoint.
    pub(super) struct EndpointRotation {
        /// Seconds for which calls are also signed with the previous one, at most 90 days. Default: one day.
        optional grace_seconds as "graceSeconds": Whole,
    }
    example {"graceSeconds": 600}
}

domain::body! {
    /// Messages to deliver again.
    pub(super) struct Redelivery {
        /// Ids of messages, at most 1,000. Default: all messages that Tidings gave up on.
        optional ids: List<AnyText>,
    }
    example {"ids": ["0197b5a2-3c4d-7e6f-8a9b-0c1d2e3f4a5b"]}
}

fn names(events: &[WebhookEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.as_str()).collect()
}

impl From<Endpoint> for EndpointBody {
    fn from(endpoint: Endpoint) -> EndpointBody {
        let (disabled_at, disabled_reason) = endpoint.disabled.unzip();
        EndpointBody {
            id: endpoint.id.to_string(),
            url: endpoint.url,
            events: names(&endpoint.events),
            since: endpoint.since,
            failing_since: endpoint.failing_since,
            disabled_at,
            disabled_reason,
            secrets: endpoint.secrets,
            pending: endpoint.pending,
            failed: endpoint.failed,
        }
    }
}

impl From<FailedMessage> for FailedMessageBody {
    fn from(message: FailedMessage) -> FailedMessageBody {
        FailedMessageBody {
            id: message.id.to_string(),
            endpoint_id: message.endpoint.to_string(),
            url: message.url,
            event: message.event,
            created_at: message.created_at,
            given_up_at: message.given_up_at,
            attempts: message.attempts,
            last_answer: message.last_answer,
        }
    }
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<EndpointBody>> {
    let app = call.app()?.id;
    Ok(Page::whole(cases::list(call.operations(), &call.caller, app).await?))
}

pub(super) async fn put(call: &Call<'_>) -> Answer<PutEndpoint> {
    let app = call.app()?.id;
    let (url, events) = call.body(|values: &mut EndpointValues, problems| {
        let (url, given) = (values.url(problems), values.events(problems).unwrap_or_default());
        let mut events = Vec::new();
        for event in given {
            match event.as_str().and_then(|name| name.parse::<WebhookEvent>().ok()) {
                Some(event) => events.push(event),
                None => {
                    let message = format!("events must be some of {}", names(WebhookEvent::ALL).join(", "));
                    problems.push(domain::Problem::new("events", "unknown_value", message));
                }
            }
        }
        Some((url?, events))
    })?;
    let set = cases::set(call.operations(), &call.caller, app, &url, &events).await?;
    let secret = set.secret.map(|secret| secret.expose_secret().to_owned());
    let id = set.id.to_string();
    let url = cases::find(call.operations(), &call.caller, app, &id).await?.url;
    Ok(PutEndpoint { id, url, events: names(&set.events), secret })
}

async fn endpoint(call: &Call<'_>) -> Answer<(domain::AppId, Endpoint)> {
    let app = call.app()?.id;
    let found = cases::find(call.operations(), &call.caller, app, call.path("endpoint")).await?;
    Ok((app, found))
}

pub(super) async fn rotate(call: &Call<'_>) -> Answer<EndpointSecret> {
    let seconds = call.body(|body: &mut EndpointRotation, problems| Some(body.grace_seconds(problems)))?;
    let seconds = seconds.unwrap_or(USUAL_GRACE);
    let grace = u64::try_from(seconds).ok().filter(|_| seconds <= LONGEST_GRACE);
    let message = format!("graceSeconds must be from 0 to {LONGEST_GRACE}");
    let grace = grace.ok_or_else(|| Failure::problem("graceSeconds", "out_of_range", message))?;
    let (app, endpoint) = endpoint(call).await?;
    let (operations, grace) = (call.operations(), Duration::from_secs(grace));
    let secret = cases::rotate_secret(operations, &call.caller, app, endpoint.id, grace).await?;
    Ok(EndpointSecret { secret: secret.expose_secret().to_owned() })
}

pub(super) async fn remove(call: &Call<'_>) -> Answer<Nothing> {
    let (app, endpoint) = endpoint(call).await?;
    cases::remove(call.operations(), &call.caller, app, endpoint.id).await?;
    Ok(Nothing {})
}

pub(super) async fn failed(call: &Call<'_>) -> Answer<Page<FailedMessageBody>> {
    let (app, endpoint) = endpoint(call).await?;
    let most = u32::try_from(parameter::MOST).unwrap_or(u32::MAX);
    Ok(Page::whole(cases::failed(call.operations(), &call.caller, app, Some(endpoint.id), most).await?))
}

pub(super) async fn redeliver(call: &Call<'_>) -> Answer<ChangedBody> {
    let ids = call.body(|body: &mut Redelivery, problems| {
        let Some(given) = body.ids(problems) else { return Some(None) };
        let parsed = given.iter().map(|id| id.as_str().and_then(|id| id.parse().ok()));
        let ids: Option<Vec<Uuid>> = parsed.take(MOST_IDS + 1).collect();
        let ids = ids.filter(|ids| ids.len() <= MOST_IDS);
        if ids.is_none() {
            let message = format!("ids must be at most {MOST_IDS} UUIDs");
            problems.push(domain::Problem::new("ids", "invalid_id", message));
        }
        Some(ids)
    })?;
    let (app, endpoint) = endpoint(call).await?;
    let (operations, ids) = (call.operations(), ids.as_deref());
    let changed = cases::redeliver(operations, &call.caller, app, Some(&endpoint), ids).await?;
    Ok(ChangedBody { changed })
}
