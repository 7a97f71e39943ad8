use std::collections::BTreeMap;
use std::fmt::Display;

use clap::Subcommand;
use domain::redrive::{Pause, RunState};
use domain::{AppId, Timestamp};
use operations::redrives::{self, LARGE, NewRedrive, RATES, RedrivePreview};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::deliveries::redrive::ParkedFilter;
use store::deliveries::redrive::run::RedriveRun;

use super::Selection;
use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::Options;
use crate::place::Place;
use crate::refused::{InvalidInput, OrMissing as _};

/// Runs in a list.
const LISTED: i64 = 100;

/// Start, list, pause, resume and stop redrives that the dispatcher makes in the background.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  tidings parked run start --app shop --cause 535 --rate 50
  tidings parked run list shop
  tidings parked run pause shop 7")]
pub(crate) enum Command {
    Start(StartArguments),
    /// List the latest 100 redrives of an app.
    #[command(after_help = "Example:
  tidings parked run list shop")]
    List(ListArguments),
    /// Show a redrive.
    #[command(after_help = "Example:
  tidings parked run show shop 7 --json")]
    Show(Named),
    /// Pause a redrive.
    #[command(after_help = "Example:
  tidings parked run pause shop 7")]
    Pause(Named),
    /// Resume a redrive that paused itself or was paused.
    #[command(after_help = "Example:
  tidings parked run resume shop 7")]
    Resume(Named),
    /// Stop a redrive. The other messages stay parked.
    #[command(after_help = "Example:
  tidings parked run stop shop 7")]
    Stop(Named),
}

/// Start a redrive in the background. It takes nothing that is parked afterwards, and judges each message when its turn comes.
///
/// It pauses itself if 20 of its latest 100 deliveries have failed or are parked again, or if one meets an open circuit breaker.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings parked run start --app shop --dry-run
  tidings parked run start --app shop --channel email --cause 535 --rate 50
  tidings parked run start --app shop --confirm 12000

Exit codes: 0 started; 1 failed, or another redrive may select the same messages; 2 nothing would be redriven, or the number has to be confirmed.")]
pub(crate) struct StartArguments {
    #[command(flatten)]
    selection: Selection,
    /// Messages per second
    #[arg(long, value_name = "N", default_value_t = RATES.1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Number of messages that the dry run reports, which is needed above 1,000
    #[arg(long, value_name = "NUMBER")]
    confirm: Option<u64>,
    /// Report what would be redriven, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Name or id of the app
    app: String,
    /// Number of the redrive, as `list` shows it
    run: i64,
    #[command(flatten)]
    options: Options,
}

pub(super) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Start(arguments) => start(&arguments).await,
        Command::List(arguments) => list(&arguments).await,
        Command::Show(named) => show(&named).await,
        Command::Pause(named) => change(&named, RunState::Paused).await,
        Command::Resume(named) => change(&named, RunState::Running).await,
        Command::Stop(named) => change(&named, RunState::Stopped).await,
    }
}

/// Result of a dry run.
#[derive(Deserialize)]
struct Preview {
    at: Timestamp,
    expected: u64,
    /// Messages that would stay parked, by reason.
    stay: BTreeMap<String, u64>,
    people: u64,
}

impl From<RedrivePreview> for Preview {
    fn from(preview: RedrivePreview) -> Preview {
        let expected = preview.expected();
        let stay = preview.stay.into_iter().map(|(skip, number)| (skip.to_string(), number));
        Preview { at: preview.at, expected, stay: stay.collect(), people: preview.people }
    }
}

impl Preview {
    fn selected(&self) -> u64 {
        self.expected + self.stay.values().sum::<u64>()
    }
}

/// Writes a selection for a console, which knows its app.
fn selection(filter: &ParkedFilter) -> Value {
    json!({
        "channel": filter.channel, "provider": filter.provider, "cause": filter.cause, "category": filter.category,
        "deliveryId": filter.delivery, "since": filter.since, "before": filter.before,
    })
}

async fn preview(place: &Place, app: AppId, filter: &ParkedFilter) -> anyhow::Result<Preview> {
    Ok(match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            redrives::preview(operations, caller, app, filter, |_| ()).await?.into()
        }
        Place::Console(api) => api.post(&[&"apps", &app, &"parked", &"preview"], &selection(filter)).await?,
    })
}

async fn start(arguments: &StartArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let filter = arguments.selection.filter(&place).await?;
    let app = filter.app.ok_or_else(|| InvalidInput("name the app: --app".to_owned()))?;
    let preview = preview(&place, app, &filter).await?;
    if arguments.dry_run {
        return Ok(arguments.options.report(&preview_as_json(&preview), would(&preview)));
    }
    let expected = preview.expected;
    if expected > LARGE && arguments.confirm != Some(expected) {
        return Err(InvalidInput(format!(
            "{expected} messages would be redriven: confirm with --confirm {expected}"
        ))
        .into());
    }
    let run: RunRow = match place {
        Place::Database(database) => {
            let new = NewRedrive {
                app,
                filter: &filter,
                previewed_at: preview.at,
                per_second: arguments.rate,
                expected,
                typed: arguments.confirm,
                is_confirmed: true,
            };
            let id = redrives::start(&database.operations, &database.caller, &new).await?;
            redrives::find(&database.operations, &database.caller, app, id).await?.into()
        }
        Place::Console(api) => {
            let body = json!({
                "selection": selection(&filter), "previewedAt": preview.at, "expected": expected,
                "confirm": arguments.confirm, "perSecond": arguments.rate,
            });
            api.post(&[&"apps", &app, &"redrives"], &body).await?
        }
    };
    let text = format!("Redrive {} of {} messages runs in the background.\n", run.id, run.expected);
    Ok(arguments.options.report(&run, text))
}

fn would(preview: &Preview) -> String {
    let (expected, selected) = (preview.expected, preview.selected());
    format!("Would redrive {expected} of {selected} messages, for {} people.\n", preview.people)
}

fn preview_as_json(preview: &Preview) -> Value {
    json!({
        "dryRun": true, "at": preview.at, "expected": preview.expected, "selected": preview.selected(),
        "people": preview.people,
    })
}

/// A redrive.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunRow {
    id: String,
    state: RunState,
    pause: Option<Pause>,
    selected: i64,
    expected: i64,
    redriven: i64,
    skipped: BTreeMap<String, i64>,
    per_second: i32,
    created_by: String,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl From<RedriveRun> for RunRow {
    fn from(run: RedriveRun) -> RunRow {
        RunRow {
            id: run.id.to_string(),
            state: run.state,
            pause: run.pause.map(|(pause, _)| pause),
            selected: run.selected,
            expected: run.expected,
            redriven: run.redriven,
            skipped: run.skipped,
            per_second: run.per_second,
            created_by: run.created_by,
            created_at: run.created_at,
            ended_at: run.ended_at,
        }
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let runs: Vec<RunRow> = match place {
        Place::Database(database) => {
            rows(redrives::list(&database.operations, &database.caller, app.id, LISTED).await?)
        }
        Place::Console(api) => api.whole(&[&"apps", &app.id, &"redrives"], Query::default()).await?,
    };
    let header = ["RUN", "STATE", "REDRIVEN", "KEPT", "SELECTED", "A SECOND", "STARTED", "BY"];
    Ok(Listing::new(runs).render(arguments.options.json, header, |run| {
        [
            run.id.clone(),
            run.state.to_string(),
            run.redriven.to_string(),
            run.skipped.values().sum::<i64>().to_string(),
            run.selected.to_string(),
            run.per_second.to_string(),
            run.created_at.to_string(),
            run.created_by.clone(),
        ]
    }))
}

async fn show(named: &Named) -> anyhow::Result<String> {
    let (place, app) = named.options.open_app(&named.app).await?;
    let found = match place {
        Place::Database(database) => {
            let found = redrives::find(&database.operations, &database.caller, app.id, named.run).await;
            found.map(RunRow::from)
        }
        Place::Console(api) => api.get(&[&"apps", &app.id, &"redrives", &named.run]).await,
    };
    let run = json!(found.or_missing(|| named.missing(&app.name))?);
    Ok(named.options.report(&run, format!("{run:#}\n")))
}

async fn change(named: &Named, to: RunState) -> anyhow::Result<String> {
    let (place, app) = named.options.open_app(&named.app).await?;
    let changed = match place {
        Place::Database(database) => {
            redrives::change(&database.operations, &database.caller, app.id, named.run, to).await
        }
        Place::Console(api) => {
            let verb = match to {
                RunState::Paused => "pause",
                RunState::Running => "resume",
                RunState::Stopped | RunState::Done => "stop",
            };
            let path: [&dyn Display; 5] = [&"apps", &app.id, &"redrives", &named.run, &verb];
            api.post(&path, &json!({})).await.map(|_: Value| ())
        }
    };
    changed.or_missing(|| named.missing(&app.name))?;
    let text = format!("Redrive {} of app {} is {to}.\n", named.run, app.name);
    Ok(named.options.report(&json!({"id": named.run.to_string(), "state": to}), text))
}

impl Named {
    fn missing(&self, app: &str) -> String {
        format!("app {app} has no redrive {}; `tidings parked run list {app}` lists them", self.run)
    }
}
