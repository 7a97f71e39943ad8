//! Providers of an app.

use domain::{Channel, Timestamp};
use operations::providers::{self as cases, Draft, Expected, FailedTest, TEST_LIMIT};
use serde::Serialize;
use serde_json::{Value, json};
use store::control::provider::ProviderSummary;
use utoipa::ToSchema;
use web::failure::Failure;
use web::vocabulary::{self, FreeObject, Time};

use super::call::{Answer, Call};
use super::route::Nothing;
use super::shape::Page;

/// A provider, without its secrets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Provider)]
pub(super) struct ProviderBody {
    identifier: String,
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    kind: String,
    /// Providers with lower numbers are tried first.
    priority: i32,
    enabled: bool,
    max_per_second: Option<u32>,
    /// Settings of the kind, without secrets.
    #[schema(value_type = FreeObject)]
    settings: Value,
    secrets: StoredSecrets,
    /// Grows with every change. `If-Match` compares it.
    version: i64,
    #[schema(value_type = Time)]
    updated_at: Timestamp,
    /// Ids in receipts that match no delivery; null in a list.
    unmatched_receipts: Option<Vec<String>>,
}

/// The secrets of a provider, whose values are never shown.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct StoredSecrets {
    /// True if the provider has secrets.
    set: bool,
    /// Latest time at which one of them was set; null if it is not known.
    #[schema(value_type = Option<Time>)]
    set_at: Option<Timestamp>,
    /// Each secret. Empty if an earlier release set them.
    each: Vec<StoredSecret>,
}

/// A secret of a provider.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct StoredSecret {
    name: String,
    /// Null if the time is not known.
    #[schema(value_type = Option<Time>)]
    set_at: Option<Timestamp>,
}

/// The new version of a provider.
#[derive(Serialize, ToSchema)]
pub(super) struct ProviderVersion {
    identifier: String,
    version: i64,
}

domain::schemas! {
    /// Document of a provider, as `tidings provider set` reads it.
    pub(super) ProviderDocumentSchema = |_| json!({
        "type": "object",
        "description": "The document that `tidings provider set --help` describes.",
        "required": ["channel", "kind"],
        "properties": {
            "identifier": {"type": "string", "description": "Like the one in the path, if it is given."},
            "channel": {"$ref": "#/components/schemas/Channel"},
            "kind": {"type": "string"},
            "priority": {"type": ["integer", "null"], "description": "The lowest number is tried first. Default: 10."},
            "enabled": {"type": ["boolean", "null"], "description": "Default: true."},
            "maxPerSecond": {"type": ["integer", "null"], "description": "Maximum calls per second of each worker. Default: no limit."},
            "settings": {"type": ["object", "null"], "description": "Settings of the kind, with its secrets."},
        },
        "example": {"channel": "email", "kind": "smtp", "settings": {"host": "smtp.example.com", "from": "shop@example.com"}},
    });
}

/// Result of a test.
#[derive(Serialize, ToSchema)]
#[schema(as = ProviderTest)]
pub(super) struct TestBody {
    passed: bool,
    /// Settings that the provider's answer confirmed. Null if the test failed.
    proved: Option<String>,
    /// Null if the test passed.
    failure: Option<TestFailure>,
}

/// Reason why a test failed.
#[derive(Serialize, ToSchema)]
struct TestFailure {
    /// Outcome of a delivery with this answer, such as `retry` or `pause_provider`.
    outcome: String,
    code: String,
    message: String,
    /// Remedy.
    advice: String,
}

impl From<FailedTest> for TestFailure {
    fn from(failed: FailedTest) -> TestFailure {
        let FailedTest { outcome, code, message, advice } = failed;
        TestFailure { outcome: outcome.to_owned(), code, message, advice }
    }
}

impl From<ProviderSummary> for ProviderBody {
    fn from(provider: ProviderSummary) -> ProviderBody {
        ProviderBody {
            identifier: provider.identifier,
            channel: provider.channel,
            kind: provider.kind,
            priority: provider.priority,
            enabled: provider.enabled,
            max_per_second: provider.max_per_second,
            settings: provider.settings,
            secrets: StoredSecrets {
                set: provider.has_secret,
                set_at: provider.secrets.values().flatten().max().copied(),
                each: provider
                    .secrets
                    .into_iter()
                    .map(|(name, set_at)| StoredSecret { name, set_at })
                    .collect(),
            },
            version: provider.version,
            updated_at: provider.updated_at,
            unmatched_receipts: None,
        }
    }
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<ProviderBody>> {
    let app = call.app()?.id;
    Ok(Page::whole(cases::list(call.operations(), &call.caller, app).await?))
}

pub(super) async fn show(call: &Call<'_>) -> Answer<ProviderBody> {
    let app = call.app()?.id;
    let found = cases::find(call.operations(), &call.caller, app, call.path("provider")).await?;
    Ok(ProviderBody { unmatched_receipts: Some(found.unmatched_receipts), ..found.provider.into() })
}

pub(super) async fn put(call: &Call<'_>) -> Answer<ProviderVersion> {
    let (app, identifier) = (call.app()?.id, call.path("provider"));
    let mut given = call.document();
    if let Value::Object(members) = &mut given {
        let own = members.entry("identifier").or_insert_with(|| identifier.into());
        if own != identifier {
            let message = "identifier must be the one in the path, or be left out";
            return Err(Failure::problem("identifier", "differs_from_path", message).into());
        }
    }
    let draft = Draft::read(call.console.kinds, given).map_err(Failure::Invalid)?;
    let expected = call.expected_version()?.map_or(Expected::Any, Expected::Version);
    let set = cases::set_version(call.operations(), &call.caller, app, &draft, expected).await?;
    Ok(ProviderVersion { identifier: identifier.to_owned(), version: set.version })
}

pub(super) async fn enable(call: &Call<'_>) -> Answer<ProviderVersion> {
    switch(call, true).await
}

pub(super) async fn disable(call: &Call<'_>) -> Answer<ProviderVersion> {
    switch(call, false).await
}

async fn switch(call: &Call<'_>, enabled: bool) -> Answer<ProviderVersion> {
    let (app, identifier) = (call.app()?.id, call.path("provider"));
    let version = cases::enable(call.operations(), &call.caller, app, identifier, enabled).await?;
    Ok(ProviderVersion { identifier: identifier.to_owned(), version })
}

pub(super) async fn remove(call: &Call<'_>) -> Answer<Nothing> {
    let app = call.app()?.id;
    cases::remove(call.operations(), &call.caller, app, call.path("provider")).await?;
    Ok(Nothing {})
}

pub(super) async fn test(call: &Call<'_>) -> Answer<TestBody> {
    let (app, identifier) = (call.app()?.id, call.path("provider"));
    let tested = call.console.provider_tests.test(&call.caller, app, identifier, TEST_LIMIT).await?;
    Ok(match tested.result {
        Ok(proved) => TestBody { passed: true, proved: Some(proved), failure: None },
        Err(failed) => TestBody { passed: false, proved: None, failure: Some(failed.into()) },
    })
}
