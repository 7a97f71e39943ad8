use std::fmt::Display;

use domain::Timestamp;
use domain::id::TemplateId;
use operations::templates;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::control::template::{TemplateSummary, TemplateVersion};

use super::{TemplateArguments, VersionArguments};
use crate::admin_api::Query;
use crate::app::AppRow;
use crate::listing::{Listing, rows};
use crate::numbers;
use crate::options::AppArguments;
use crate::place::Place;
use crate::refused::OrMissing as _;

/// List the versions of a template, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings template versions shop welcome")]
pub(crate) struct VersionsArguments {
    #[command(flatten)]
    template: TemplateArguments,
    /// Maximum number of versions to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

const HEADER: [&str; 7] = ["IDENTIFIER", "ID", "VERSION", "NAME", "CATEGORY", "CHANNELS", "CREATED"];

/// A version of a template, without its content.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryRow {
    identifier: String,
    #[serde(deserialize_with = "numbers::read")]
    id: TemplateId,
    version: i32,
    name: String,
    category: Option<String>,
    channels: Vec<String>,
    created_at: Timestamp,
}

/// A version of a template in the admin API.
#[derive(Deserialize)]
struct VersionBody {
    identifier: String,
    #[serde(deserialize_with = "numbers::read")]
    id: TemplateId,
    version: i32,
    name: String,
    category: Option<String>,
    channels: Value,
}

impl From<TemplateSummary> for SummaryRow {
    fn from(template: TemplateSummary) -> SummaryRow {
        SummaryRow {
            identifier: template.identifier,
            id: template.id,
            version: template.version,
            name: template.name,
            category: template.category,
            channels: template.channels,
            created_at: template.created_at,
        }
    }
}

impl From<VersionBody> for TemplateVersion {
    fn from(body: VersionBody) -> TemplateVersion {
        TemplateVersion {
            id: body.id,
            identifier: body.identifier,
            version: body.version,
            name: body.name,
            category: body.category,
            // As it was written, with the MJML of the email.
            channels: body.channels,
            mjml: None,
        }
    }
}

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.open().await?;
    let templates: Vec<SummaryRow> = match place {
        Place::Database(database) => {
            rows(templates::list(&database.operations, &database.caller, app.id).await?)
        }
        Place::Console(api) => api.whole(&[&"apps", &app.id, &"templates"], Query::default()).await?,
    };
    Ok(Listing::new(templates).render(arguments.options.json, HEADER, cells))
}

pub(super) async fn versions(arguments: &VersionsArguments) -> anyhow::Result<String> {
    let TemplateArguments { identifier, options, .. } = &arguments.template;
    let (place, app) = options.open_app(&arguments.template.app).await?;
    let limit = arguments.limit.saturating_add(1);
    let versions = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            templates::versions(operations, caller, app.id, identifier, limit.into()).await.map(rows)
        }
        Place::Console(api) => {
            let path: [&dyn Display; 5] = [&"apps", &app.id, &"templates", identifier, &"versions"];
            api.whole(&path, Query::default()).await
        }
    };
    let versions: Vec<SummaryRow> = versions.or_missing(|| arguments.template.missing(&app.name, None))?;
    Ok(Listing::first(versions, arguments.limit).render(options.json, HEADER, cells))
}

/// Finds a version of a template, by default the newest.
pub(super) async fn find(
    place: &Place,
    app: &AppRow,
    template: &TemplateArguments,
    version: Option<i32>,
) -> anyhow::Result<TemplateVersion> {
    let identifier = &template.identifier;
    let found = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            templates::find(operations, caller, app.id, identifier, version).await
        }
        Place::Console(api) => {
            let newest: [&dyn Display; 4] = [&"apps", &app.id, &"templates", identifier];
            let found = match version {
                Some(version) => api.get(&[&newest[..], &[&"versions", &version]].concat()).await,
                None => api.get(&newest).await,
            };
            found.map(|found: VersionBody| found.into())
        }
    };
    found.or_missing(|| template.missing(&app.name, version))
}

pub(super) async fn show(arguments: &VersionArguments) -> anyhow::Result<String> {
    let VersionArguments { template, version } = arguments;
    let (place, app) = template.options.open_app(&template.app).await?;
    let document = document(&find(&place, &app, template, *version).await?);
    Ok(template.options.report(&document, format!("{document:#}\n")))
}

fn document(found: &TemplateVersion) -> Value {
    json!({
        "identifier": found.identifier,
        "id": found.id,
        "version": found.version,
        "name": found.name,
        "category": found.category,
        "channels": templates::written(&found.channels, found.mjml.as_deref()),
    })
}

fn cells(template: &SummaryRow) -> [String; 7] {
    [
        template.identifier.clone(),
        template.id.to_string(),
        template.version.to_string(),
        template.name.clone(),
        template.category.clone().unwrap_or_else(|| "-".to_owned()),
        template.channels.join(","),
        template.created_at.to_string(),
    ]
}
