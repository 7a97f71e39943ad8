use clap::Subcommand;
use domain::redrive::RunState;
use operations::redrives::{self, LARGE, NewRedrive, RATES, RedrivePreview};
use serde_json::{Value, json};
use store::deliveries::redrive::run::RedriveRun;

use super::Selection;
use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::Options;
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

async fn start(arguments: &StartArguments) -> anyhow::Result<String> {
    let control_plane = arguments.options.open().await?;
    let filter = arguments.selection.filter(&control_plane).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let app = filter.app.ok_or_else(|| InvalidInput("name the app: --app".to_owned()))?;
    let preview = redrives::preview(&operations, &caller, app, &filter, |_| ()).await?;
    if arguments.dry_run {
        return Ok(arguments.options.report(&preview_as_json(&preview), would(&preview)));
    }
    if preview.expected() > LARGE && arguments.confirm != Some(preview.expected()) {
        let expected = preview.expected();
        return Err(InvalidInput(format!(
            "{expected} messages would be redriven: confirm with --confirm {expected}"
        ))
        .into());
    }
    let new = NewRedrive {
        app,
        filter: &filter,
        previewed_at: preview.at,
        per_second: arguments.rate,
        expected: preview.expected(),
        typed: arguments.confirm,
        is_confirmed: true,
    };
    let id = redrives::start(&operations, &caller, &new).await?;
    let run = redrives::find(&operations, &caller, app, id).await?;
    let text = format!("Redrive {id} of {} messages runs in the background.\n", run.expected);
    Ok(arguments.options.report(&as_json(&run), text))
}

fn would(preview: &RedrivePreview) -> String {
    let (expected, selected) = (preview.expected(), preview.selected());
    format!("Would redrive {expected} of {selected} messages, for {} people.\n", preview.people)
}

fn preview_as_json(preview: &RedrivePreview) -> Value {
    json!({
        "dryRun": true, "at": preview.at, "expected": preview.expected(), "selected": preview.selected(),
        "people": preview.people,
    })
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let runs = redrives::list(&operations, &caller, app.id, LISTED).await?;
    let header = ["RUN", "STATE", "REDRIVEN", "KEPT", "SELECTED", "A SECOND", "STARTED", "BY"];
    Ok(Listing::new(runs).render(arguments.options.json, as_json, header, |run| {
        [
            run.id.to_string(),
            run.state.to_string(),
            run.redriven.to_string(),
            run.kept().to_string(),
            run.selected.to_string(),
            run.per_second.to_string(),
            run.created_at.to_string(),
            run.created_by.clone(),
        ]
    }))
}

async fn show(named: &Named) -> anyhow::Result<String> {
    let (control_plane, app) = named.options.open_app(&named.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let found = redrives::find(&operations, &caller, app.id, named.run).await;
    let run = as_json(&found.or_missing(|| named.missing(&app.name))?);
    Ok(named.options.report(&run, format!("{run:#}\n")))
}

async fn change(named: &Named, to: RunState) -> anyhow::Result<String> {
    let (control_plane, app) = named.options.open_app(&named.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let changed = redrives::change(&operations, &caller, app.id, named.run, to).await;
    changed.or_missing(|| named.missing(&app.name))?;
    let text = format!("Redrive {} of app {} is {to}.\n", named.run, app.name);
    Ok(named.options.report(&json!({"id": named.run.to_string(), "state": to}), text))
}

impl Named {
    fn missing(&self, app: &str) -> String {
        format!("app {app} has no redrive {}; `tidings parked run list {app}` lists them", self.run)
    }
}

fn as_json(run: &RedriveRun) -> Value {
    json!({
        "id": run.id.to_string(), "state": run.state, "pause": run.pause.as_ref().map(|(pause, _)| pause),
        "selected": run.selected, "expected": run.expected, "redriven": run.redriven, "skipped": run.skipped,
        "perSecond": run.per_second, "createdBy": run.created_by, "createdAt": run.created_at, "endedAt": run.ended_at,
    })
}
