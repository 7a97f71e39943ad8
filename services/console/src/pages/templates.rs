//! The templates of an app, and the texts of a version.

pub(crate) mod editor;
mod fields;
mod form;
mod preview;
pub(crate) mod publish;

use actix_web::http::StatusCode;
use askama::Template;
use domain::{Channel, Timestamp};
use operations::Permission;
use operations::templates::{self, Sample};
use store::control::template::{TemplateSummary, TemplateVersion};

use self::fields::ChannelFields;
use super::sends::PAGE;
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part};
use crate::console::Console;
use crate::query::Pairs;
use crate::route::encoded;
use crate::text;

/// Number of versions that the page of a template lists.
const LISTED: i64 = 50;

/// Finds the page of a path below the app.
pub(crate) async fn open(console: &Console, visit: Visit, below: &[&str], query: &Pairs) -> Answer {
    match below {
        ["new-template"] => editor::new(console, visit, query).await,
        ["templates"] => list(console, visit, query).await,
        ["templates", id] => show(console, visit, id, None).await,
        ["templates", id, "edit"] => editor::edit(console, visit, id, query).await,
        ["templates", id, "versions", number] => {
            let number = version_number(number)?;
            show(console, visit, id, Some(number)).await
        }
        ["templates", id, "versions", number, "frame"] => frame(console, visit, id, number).await,
        ["templates", id, "versions", number, "restore"] => {
            publish::ask_restore(console, visit, id, number).await
        }
        _ => Err(Refusal::NotFound("There is no page at this address.")),
    }
}

struct TemplateRow {
    path: String,
    template: TemplateSummary,
    channels: String,
}

#[derive(Template)]
#[template(path = "templates.html")]
struct TemplatesPage {
    visit: Visit,
    query: String,
    rows: Part<Vec<TemplateRow>>,
    next: Option<String>,
}

/// Writes the names of channels as words.
fn words(channels: &[String]) -> String {
    let name =
        |name: &String| name.parse::<Channel>().map_or(name.clone(), |known| text::channel(known).to_owned());
    channels.iter().map(name).collect::<Vec<_>>().join(", ")
}

async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let searched = query.text("q").unwrap_or_default().to_owned();
    let after = query.text("after").unwrap_or_default();
    let lower = searched.to_lowercase();
    let is_wanted = |template: &TemplateSummary| {
        template.identifier.as_str() > after
            && [&template.identifier, &template.name].iter().any(|text| text.to_lowercase().contains(&lower))
    };
    let mut next = None;
    let rows = part(templates::list(&console.operations, caller, app).await)?.map(|listed| {
        let mut wanted: Vec<_> = listed.into_iter().filter(is_wanted).take(PAGE + 1).collect();
        if wanted.len() > PAGE {
            wanted.truncate(PAGE);
            let query =
                if searched.is_empty() { String::new() } else { format!("q={}&", encoded(&searched)) };
            next = wanted
                .last()
                .map(|last| visit.path(&format!("/templates?{query}after={}", encoded(&last.identifier))));
        }
        let row = |template: TemplateSummary| TemplateRow {
            path: visit.template_path(&template.identifier),
            channels: words(&template.channels),
            template,
        };
        wanted.into_iter().map(row).collect()
    });
    page(StatusCode::OK, &TemplatesPage { visit, query: searched, rows, next })
}

struct VersionRow {
    number: i32,
    path: String,
    created_at: Timestamp,
    channels: String,
    /// True if sends use this version.
    live: bool,
    /// True if the page shows this version.
    current: bool,
}

#[derive(Template)]
#[template(path = "template.html")]
struct TemplatePage {
    visit: Visit,
    version: TemplateVersion,
    live: i32,
    /// Fields with a text.
    channels: Vec<ChannelFields>,
    /// Path of this version.
    path: String,
    versions: Part<Vec<VersionRow>>,
    /// True if the template has more versions than the page lists.
    has_more: bool,
}

fn version_number(text: &str) -> Result<i32, Refusal> {
    text.parse().map_err(|_| Refusal::NotFound("This is not the number of a version."))
}

async fn show(console: &Console, visit: Visit, identifier: &str, number: Option<i32>) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let operations = &console.operations;
    let newest = templates::find(operations, caller, app, identifier, None).await?;
    let live = newest.version;
    let version = match number.filter(|number| *number != live) {
        None => newest,
        Some(number) => templates::find(operations, caller, app, identifier, Some(number)).await?,
    };
    let path = visit.template_path(identifier);
    let read = part(templates::versions(operations, caller, app, identifier, LISTED + 1).await)?;
    let has_more = read.as_ref().is_ok_and(|versions| versions.len() > LISTED as usize);
    let row = |summary: TemplateSummary| VersionRow {
        path: format!("{path}/versions/{}", summary.version),
        number: summary.version,
        created_at: summary.created_at,
        channels: words(&summary.channels),
        live: summary.version == live,
        current: summary.version == version.version,
    };
    let versions = read.map(|versions| versions.into_iter().take(LISTED as usize).map(row).collect());
    let written = templates::written(&version.channels, version.mjml.as_deref());
    let channels = fields::of_version(&written).into_iter().filter_map(ChannelFields::filled).collect();
    let path = format!("{path}/versions/{}", version.version);
    page(StatusCode::OK, &TemplatePage { visit, version, live, channels, path, versions, has_more })
}

/// Answers with the HTML of a version's email, rendered with invented values.
async fn frame(console: &Console, visit: Visit, identifier: &str, number: &str) -> Answer {
    let (app, caller) = (visit.app()?, &visit.operator.caller);
    let number = version_number(number)?;
    let found = templates::find(&console.operations, caller, app.id, identifier, Some(number)).await?;
    let sample = Sample::invented(&found.channels);
    let preview =
        templates::preview(&console.operations, caller, app, identifier, Some(number), sample).await?;
    preview::frame(&preview)
}
