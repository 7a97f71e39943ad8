use std::fmt::Display;

use anyhow::Context as _;
use clap::ValueEnum;
use domain::{AppId, Problem};
use operations::OperationError;
use operations::providers::{self, Draft, SetProvider};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::kinds;
use crate::admin_api::{AdminApi, Query};
use crate::app::AppRow;
use crate::control_plane::ControlPlane;
use crate::document::DocumentSource;
use crate::options::Options;
use crate::place::Place;
use crate::refused::InvalidInput;

/// Stand-ins for which `tidings up` has a provider.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StandIn {
    /// SMTP server
    Email,
    /// Push service for browsers
    WebPush,
    /// APNs and FCM
    MobilePush,
    /// Twilio
    Sms,
    /// Message centre that speaks SMPP
    SmsSmpp,
    /// SMS provider with its own HTTP API
    SmsHttp,
}

impl StandIn {
    /// Identifiers of the providers, as the demo app has them.
    fn identifiers(self) -> &'static [&'static str] {
        match self {
            StandIn::Email => &["stand-in"],
            StandIn::WebPush => &["stand-in-web-push"],
            StandIn::MobilePush => &["stand-in-apns", "stand-in-fcm"],
            StandIn::Sms => &["stand-in-sms"],
            StandIn::SmsSmpp => &["stand-in-sms-smpp"],
            StandIn::SmsHttp => &["stand-in-sms-http"],
        }
    }
}

/// Create or replace a provider of an app, from a JSON document, or for a stand-in of `tidings up`. Workers use it within two
/// seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = kinds::format())]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    source: DocumentSource,
    /// Use stand-ins of the running `tidings up`, with their addresses and credentials, instead of a document
    #[arg(
        long = "stand-in",
        value_name = "NAME",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "file"
    )]
    stand_ins: Vec<StandIn>,
    /// Check the document, print the change that `set` would make, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: Options,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    if !arguments.stand_ins.is_empty() {
        return set_stand_ins(arguments).await;
    }
    let source = arguments.source.name();
    let document = arguments.source.read()?;
    let draft = read(&source, document.clone())?;
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let set = match &place {
        Place::Database(database) => set(arguments, database, app.id, (&source, &draft)).await?,
        Place::Console(api) => call(arguments, api, &app, (&source, &draft, &document)).await?,
    };
    if arguments.dry_run {
        return Ok(preview(arguments, draft.identifier(), &set));
    }
    let report = report(&draft, &set);
    Ok(arguments.options.report(&report, sentence(&draft, &set, &app.name)))
}

/// Sets a provider of the app for each stand-in that the command line names.
async fn set_stand_ins(arguments: &Arguments) -> anyhow::Result<String> {
    let database = arguments.options.place.open_database_only().await?;
    let app = database.app(&arguments.app).await?;
    let running = arguments.options.place.installation.running()?.ok_or_else(|| {
        InvalidInput(
            "no `tidings up` runs here: start one, or name its data directory with --data-dir".to_owned(),
        )
    })?;
    let (mut text, mut reports) = (String::new(), Vec::new());
    let names = arguments.stand_ins.iter().flat_map(|stand_in| stand_in.identifiers());
    for name in names {
        let document = running.providers.iter().find(|document| document["identifier"] == *name);
        let document = document.with_context(|| format!("the running `tidings up` has no {name}"))?;
        let draft = read(name, document.clone())?;
        let set = set(arguments, &database, app.id, (name, &draft)).await?;
        if arguments.dry_run {
            text.push_str(&preview(arguments, draft.identifier(), &set));
        } else {
            text.push_str(&sentence(&draft, &set, &app.name));
            reports.push(report(&draft, &set));
        }
    }
    if arguments.dry_run {
        return Ok(text);
    }
    text.push_str(&format!("Their messages are shown at {}.\n", running.outbox));
    Ok(arguments.options.report(&Value::Array(reports), text))
}

/// Result of setting a provider, or of a dry run.
#[derive(Deserialize)]
struct Set {
    version: i64,
    replaced: Option<i64>,
    #[serde(rename = "secretsGiven")]
    given: Vec<String>,
    #[serde(rename = "secretsKept")]
    kept: Vec<String>,
}

impl From<SetProvider> for Set {
    fn from(set: SetProvider) -> Set {
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        Set { version: set.version, replaced: set.replaced, given: names(set.given), kept: names(set.kept) }
    }
}

fn read(source: &str, document: Value) -> anyhow::Result<Draft> {
    let refused = |problems: Vec<_>| InvalidInput::document(source, &problems);
    Ok(Draft::read(kinds::known(), document).map_err(refused)?)
}

async fn set(
    arguments: &Arguments,
    database: &ControlPlane,
    app: AppId,
    (source, draft): (&str, &Draft),
) -> anyhow::Result<Set> {
    let ControlPlane { operations, caller, .. } = database;
    let result = if arguments.dry_run {
        providers::preview(operations, caller, app, draft).await
    } else {
        providers::set(operations, caller, app, draft).await
    };
    match result {
        Err(OperationError::Invalid(problems)) => {
            let keeps = providers::keeps_secrets(operations, caller, app, draft).await?;
            Err(refusal(source, &problems, keeps).into())
        }
        result => Ok(result?.into()),
    }
}

fn refusal(source: &str, problems: &[Problem], keeps_secrets: bool) -> InvalidInput {
    let mut error = InvalidInput::document(source, problems);
    if keeps_secrets {
        error.0.push_str("\nSecrets that the document leaves out stay unchanged; null removes one.");
    }
    error
}

async fn call(
    arguments: &Arguments,
    api: &AdminApi,
    app: &AppRow,
    (source, draft, document): (&str, &Draft, &Value),
) -> anyhow::Result<Set> {
    let path: [&dyn Display; 4] = [&"apps", &app.id, &"providers", &draft.identifier()];
    let query = Query::default().with("dryRun", arguments.dry_run.then_some(true));
    match api.call(Method::PUT, &path, &query, Some(document)).await {
        Err(OperationError::Invalid(problems)) => {
            let stored = api.get(&path).await;
            let keeps = stored.is_ok_and(|stored: Value| {
                let is_same = |name| stored[name] == document[name];
                stored["secrets"]["set"] == true && is_same("channel") && is_same("kind")
            });
            Err(refusal(source, &problems, keeps).into())
        }
        set => Ok(set?),
    }
}

fn report(draft: &Draft, set: &Set) -> Value {
    json!({"identifier": draft.identifier(), "version": set.version})
}

fn sentence(draft: &Draft, set: &Set, app: &str) -> String {
    format!("Set provider {} of app {app}, version {}.\n", draft.identifier(), set.version)
}

fn preview(arguments: &Arguments, identifier: &str, set: &Set) -> String {
    let Set { version, replaced, given, kept } = set;
    if arguments.options.json {
        let answer = json!({
            "identifier": identifier, "version": version, "dryRun": true, "secretsGiven": given, "secretsKept": kept,
        });
        return format!("{answer}\n");
    }
    let what = match replaced {
        Some(replaced) => format!("replace version {replaced}"),
        None => "be created".to_owned(),
    };
    let named = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!(
        "The document is valid; provider {identifier} would {what}. Nothing was changed.\n  secrets given  {}\n  \
         secrets kept   {}\n",
        named(given),
        named(kept),
    )
}
