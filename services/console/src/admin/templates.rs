//! Templates of an app, and their versions.

use actix_web::http::StatusCode;
use domain::body::kind::{AnyText, FreeObject, Whole};
use domain::body::words::OneOf;
use domain::{AppId, Channel, Problem, Timestamp};
use operations::templates::{
    self as cases, Sample, TemplateDocument, TestRecipient, TestSendError, TestText,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use store::control::template::{TemplateSummary, TemplateVersion};
use utoipa::ToSchema;
use web::failure::Failure;
use web::vocabulary::{self, Time};

use super::call::{Answer, Call};
use super::refused::Refused;
use super::shape::Page;

/// Maximum number of versions in a list.
const VERSIONS: i64 = 1_000;

/// A version of a template, without its content.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplateSummary)]
pub(super) struct SummaryBody {
    identifier: String,
    /// Shared by all versions.
    id: String,
    version: i32,
    name: String,
    category: Option<String>,
    channels: Vec<String>,
    #[schema(value_type = Time)]
    created_at: Timestamp,
}

/// A version of a template.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateVersion)]
pub(super) struct VersionBody {
    identifier: String,
    /// Shared by all versions.
    id: String,
    /// Grows with every change. `If-Match` compares the newest one.
    version: i32,
    name: String,
    category: Option<String>,
    /// Content by channel, as it was written: an email in MJML has the member `mjml`, and no `html`.
    #[schema(value_type = vocabulary::FreeObject)]
    channels: Value,
}

/// The new version of a template.
#[derive(Serialize, ToSchema)]
pub(super) struct PutTemplate {
    identifier: String,
    /// Shared by all versions.
    id: String,
    version: i32,
    /// Likely mistakes, which do not prevent the change.
    #[schema(value_type = Vec<web::described::Problem>)]
    warnings: Vec<Problem>,
}

/// The content that a recipient would get.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePreview)]
pub(super) struct PreviewBody {
    version: i32,
    /// Content by channel. A channel that cannot be rendered has the member `error`.
    #[schema(value_type = vocabulary::FreeObject)]
    channels: Value,
    /// Variables that the sample lacks, or that templates of the app do not see.
    missing: Vec<MissingVariable>,
}

/// A variable without a value.
#[derive(Serialize, ToSchema)]
struct MissingVariable {
    variable: String,
    /// The first text that shows it.
    text: String,
}

domain::body! {
    /// Data for a preview.
    pub(super) struct PreviewSample {
        /// Variables of a send, with the profile of a recipient in the member `recipient`. Default: none.
        optional data: FreeObject,
        /// Default: the newest one.
        optional version: Whole,
    }
    example {"data": {"order": 7, "recipient": {"name": "Ada"}}}
}

domain::body! {
    /// A test to send.
    pub(super) struct NewTestSend {
        /// Identifier of a person whose profile has `"app": {"test": true}`.
        required person: AnyText,
        /// Variables of the send. Default: none.
        optional data: FreeObject,
        /// Default: all channels that the template has.
        optional channel: OneOf<Channel>,
        /// Default: the newest one.
        optional version: Whole,
    }
    example {"person": "tester", "data": {"order": 7}, "channel": "email"}
}

/// A send that a test made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TestSend)]
pub(super) struct TestSendBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    #[schema(value_type = vocabulary::Uuid)]
    request_id: String,
}

domain::schemas! {
    /// Document of a template, as `tidings template put` reads it.
    pub(super) TemplateDocumentSchema = |_| json!({
        "type": "object",
        "description": "The document that `tidings template put --help` describes.",
        "required": ["channels"],
        "properties": {
            "identifier": {"type": "string", "description": "Like the one in the path, if it is given."},
            "name": {"type": ["string", "null"]},
            "category": {"type": ["string", "null"]},
            "channels": {"type": "object", "description": "Content by channel. An email has `html`, or `mjml`, from which HTML is compiled."},
            "sample": {"type": ["object", "null"], "description": "Values to render the template with once, to find errors; not stored."},
        },
        "example": {"channels": {"sms": {"text": "Order {{ order }} has shipped."}}},
    });
}

impl From<TemplateSummary> for SummaryBody {
    fn from(template: TemplateSummary) -> SummaryBody {
        SummaryBody {
            identifier: template.identifier,
            id: template.id.to_string(),
            version: template.version,
            name: template.name,
            category: template.category,
            channels: template.channels,
            created_at: template.created_at,
        }
    }
}

impl From<TemplateVersion> for VersionBody {
    fn from(found: TemplateVersion) -> VersionBody {
        VersionBody {
            identifier: found.identifier,
            id: found.id.to_string(),
            version: found.version,
            name: found.name,
            category: found.category,
            channels: cases::written(&found.channels, found.mjml.as_deref()).into_owned(),
        }
    }
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<SummaryBody>> {
    let app = call.app()?.id;
    Ok(Page::whole(cases::list(call.operations(), &call.caller, app).await?))
}

pub(super) async fn versions(call: &Call<'_>) -> Answer<Page<SummaryBody>> {
    let app = call.app()?.id;
    let identifier = call.path("template");
    Ok(Page::whole(cases::versions(call.operations(), &call.caller, app, identifier, VERSIONS).await?))
}

pub(super) async fn show(call: &Call<'_>) -> Answer<VersionBody> {
    let app = call.app()?.id;
    Ok(cases::find(call.operations(), &call.caller, app, call.path("template"), None).await?.into())
}

pub(super) async fn version(call: &Call<'_>) -> Answer<VersionBody> {
    let (app, version) = (call.app()?.id, version_number(call)?);
    Ok(cases::find(call.operations(), &call.caller, app, call.path("template"), Some(version)).await?.into())
}

fn version_number(call: &Call<'_>) -> Answer<i32> {
    let version = i32::try_from(call.number("version")?);
    Ok(version
        .map_err(|_| Failure::problem("version", "invalid_id", "version must be at most 2147483647"))?)
}

pub(super) async fn put(call: &Call<'_>) -> Answer<PutTemplate> {
    let (app, identifier) = (call.app()?, call.path("template"));
    let mut given = call.document();
    if let Value::Object(members) = &mut given {
        let own = members.entry("identifier").or_insert_with(|| identifier.into());
        if own != identifier {
            let message = "identifier must be the one in the path, or be left out";
            return Err(Failure::problem("identifier", "differs_from_path", message).into());
        }
    }
    let profile = app.settings.template_profile;
    let document = TemplateDocument::read_apart(given, profile).await.map_err(Failure::Invalid)?;
    let warnings = cases::warnings(&document, profile, None);
    let (operations, caller) = (call.operations(), &call.caller);
    let version = match call.expected_version()? {
        Some(newest) => {
            let newest = i32::try_from(newest).unwrap_or(i32::MAX);
            cases::publish(operations, caller, app.id, &document, newest).await?
        }
        None => cases::put(operations, caller, app.id, &document).await?.1,
    };
    put_template(call, app.id, version, warnings).await
}

pub(super) async fn restore(call: &Call<'_>) -> Answer<PutTemplate> {
    let (app, earlier) = (call.app()?.id, version_number(call)?);
    let identifier = call.path("template");
    let newest = call.expected_version()?.map(|newest| i32::try_from(newest).unwrap_or(i32::MAX));
    let version = cases::restore(call.operations(), &call.caller, app, identifier, earlier, newest).await?;
    put_template(call, app, version, Vec::new()).await
}

async fn put_template(
    call: &Call<'_>,
    app: AppId,
    version: i32,
    warnings: Vec<Problem>,
) -> Answer<PutTemplate> {
    let identifier = call.path("template");
    let added = cases::find(call.operations(), &call.caller, app, identifier, Some(version)).await?;
    Ok(PutTemplate { identifier: added.identifier, id: added.id.to_string(), version, warnings })
}

pub(super) async fn preview(call: &Call<'_>) -> Answer<PreviewBody> {
    let app = call.app()?;
    let (data, version) = call.body(|sample: &mut PreviewSample, problems| {
        let (data, version) = (sample.data(problems), sample.version(problems));
        let number = version.map(i32::try_from).transpose();
        if number.is_err() {
            problems.push(Problem::new("version", "out_of_range", "version must be at most 2147483647"));
        }
        Some((data.unwrap_or_default(), number.ok()?))
    })?;
    let (operations, identifier) = (call.operations(), call.path("template"));
    let preview =
        cases::preview(operations, &call.caller, &app, identifier, version, Sample::new(data)).await?;
    let mut channels = Map::new();
    for (channel, content) in &preview.contents {
        let shown = match content {
            Ok(content) => content.to_json().map_err(|error| Refused::defect(&error))?,
            Err(error) => json!({"error": error.to_string()}),
        };
        channels.insert(channel.to_string(), shown);
    }
    let missing = preview.missing.into_iter().map(|(variable, text)| MissingVariable { variable, text });
    Ok(PreviewBody { version: preview.version, channels: channels.into(), missing: missing.collect() })
}

pub(super) async fn test_send(call: &Call<'_>) -> Answer<Page<TestSendBody>> {
    let app = call.app()?;
    let (person, data, channel, version) = call.body(|new: &mut NewTestSend, problems| {
        let (person, data) = (new.person(problems), new.data(problems));
        let (channel, version) = (new.channel(problems), new.version(problems));
        let number = version.map(i32::try_from).transpose();
        if number.is_err() {
            problems.push(Problem::new("version", "out_of_range", "version must be at most 2147483647"));
        }
        Some((person?, data.unwrap_or_default(), channel, number.ok()?))
    })?;
    let (operations, caller) = (call.operations(), &call.caller);
    let found = cases::find(operations, caller, app.id, call.path("template"), version).await?;
    let document = json!({"identifier": found.identifier, "name": found.name, "channels": found.channels});
    let document = TemplateDocument::read_apart(document, app.settings.template_profile)
        .await
        .map_err(Failure::Invalid)?;
    let text = TestText { document: &document, sample: Sample::new(data), channel };
    let sent =
        call.console.test_sends.send(operations, caller, &app, text, TestRecipient::Person(&person)).await;
    let sent = sent.map_err(|error| match error {
        TestSendError::Failed(error) => Refused::from(error),
        TestSendError::UsedUp => {
            Failure::refused(StatusCode::TOO_MANY_REQUESTS, "rate_limited", error.to_string()).into()
        }
        error => Failure::refused(StatusCode::CONFLICT, "not_sent", error.to_string()).into(),
    })?;
    let sent = sent.into_iter().map(|(channel, id)| TestSendBody { channel, request_id: id.to_string() });
    Ok(Page::whole(sent))
}
