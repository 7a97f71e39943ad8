use operations::templates;
use serde_json::{Value, json};
use store::control::template::{TemplateSummary, TemplateVersion};

use super::{TemplateArguments, VersionArguments};
use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::AppArguments;
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

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.open().await?;
    let templates = templates::list(&control_plane.operations, &control_plane.caller, app.id).await?;
    Ok(Listing::new(templates).render(arguments.options.json, as_json, HEADER, cells))
}

pub(super) async fn versions(arguments: &VersionsArguments) -> anyhow::Result<String> {
    let TemplateArguments { identifier, options, .. } = &arguments.template;
    let (control_plane, app) = options.open_app(&arguments.template.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let limit = i64::from(arguments.limit) + 1;
    let versions = templates::versions(&operations, &caller, app.id, identifier, limit).await;
    let versions = versions.or_missing(|| arguments.template.missing(&app.name, None))?;
    Ok(Listing::first(versions, arguments.limit).render(options.json, as_json, HEADER, cells))
}

pub(super) async fn show(arguments: &VersionArguments) -> anyhow::Result<String> {
    let VersionArguments { template, version } = arguments;
    let (control_plane, app) = template.options.open_app(&template.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let found = templates::find(&operations, &caller, app.id, &template.identifier, *version).await;
    let found = found.or_missing(|| template.missing(&app.name, *version))?;
    let document = document(&found);
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

fn as_json(template: &TemplateSummary) -> Value {
    json!({
        "identifier": template.identifier,
        "id": template.id,
        "version": template.version,
        "name": template.name,
        "category": template.category,
        "channels": template.channels,
        "createdAt": template.created_at,
    })
}

fn cells(template: &TemplateSummary) -> [String; 7] {
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
