mod run;

use std::collections::BTreeMap;

use clap::Subcommand;
use domain::excerpt::excerpt;
use domain::target::masked;
use domain::{AppId, Channel, DeliveryId, SendId, Timestamp};
use operations::parked::{self, ParkedDetails, ParkedKind, RedriveReport};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service_kit::clock;
use store::deliveries::redrive::{ParkedEntry, ParkedFilter};
use store::sends::pairs::AttemptRecord;
use uuid::Uuid;

use crate::admin_api::Query;
use crate::control_plane::ControlPlane;
use crate::listing::{Listing, rows};
use crate::numbers;
use crate::options::{self, Options};
use crate::place::Place;
use crate::refused::{InvalidInput, OrMissing as _};
use crate::sends::{Since, parse_since};

/// List, show and redrive parked messages.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings parked redrive --app shop --channel email --dry-run")]
pub(crate) enum Command {
    List(ListArguments),
    Show(ShowArguments),
    Redrive(RedriveArguments),
    #[command(subcommand)]
    Run(run::Command),
}

/// Selection of parked messages.
#[derive(Debug, clap::Args)]
struct Selection {
    /// Only messages of this app, by name or id
    #[arg(long)]
    app: Option<String>,
    /// Only deliveries over this channel: email, webPush, mobilePush or sms
    #[arg(long, value_parser = options::parse_channel)]
    channel: Option<Channel>,
    /// Only this delivery
    #[arg(long, value_name = "ID")]
    delivery: Option<DeliveryId>,
    /// Only messages with this cause: the code of the provider's last answer, as `list` shows it
    #[arg(long)]
    cause: Option<String>,
    /// Only deliveries that this provider made last
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Only messages of sends of this category
    #[arg(long)]
    category: Option<String>,
    /// Only messages parked since this time (2026-11-29T09:00:00Z) or within this duration (2h, 3d)
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Since>,
    /// Only messages parked before this time, or longer ago than this duration
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    before: Option<Since>,
}

/// List parked messages, earliest first, and whether a redrive would publish them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings parked list
  tidings parked list --app shop --channel email --json")]
pub(crate) struct ListArguments {
    #[command(flatten)]
    selection: Selection,
    /// Maximum number of messages
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
    #[command(flatten)]
    options: Options,
}

/// Show one parked message, and every attempt to make its delivery, with the provider's answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings parked show 6f9a6721-db99-52b3-8e3e-78775110ebb0")]
pub(crate) struct ShowArguments {
    /// Id of the delivery, or of the parked message, as `list` shows it
    id: Uuid,
    #[command(flatten)]
    options: Options,
}

/// Redrive parked messages: each delivery gets another attempt, and each send is planned again.
///
/// Messages that are no longer useful stay parked, and the report counts them by reason: expired, user erased, request
/// cancelled, target suppressed, already read in the inbox, or already delivered over the same channel to another
/// target of the user.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings parked redrive --app shop --channel email --dry-run
  tidings parked redrive --app shop --channel email --cause 535 --since 2h
  tidings parked redrive --delivery 6f9a6721-db99-52b3-8e3e-78775110ebb0
  tidings parked redrive --all --json

Exit codes: 0 done, even if nothing was parked; 1 failed, but messages redriven before the failure stay redriven; 2 no
messages were selected. The audit log records every redriven message.")]
pub(crate) struct RedriveArguments {
    #[command(flatten)]
    selection: Selection,
    /// Select all parked messages
    #[arg(long, conflicts_with_all = ["app", "channel", "delivery", "cause", "provider", "category", "since", "before"])]
    all: bool,
    /// Report what would be redriven, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::List(arguments) => list(&arguments).await,
        Command::Show(arguments) => show(&arguments).await,
        Command::Redrive(arguments) => redrive(&arguments).await,
        Command::Run(command) => run::run(command).await,
    }
}

impl Selection {
    async fn filter(&self, place: &Place) -> anyhow::Result<ParkedFilter> {
        Ok(self.filter_of(place.app_id(self.app.as_deref()).await?))
    }

    fn filter_of(&self, app: Option<AppId>) -> ParkedFilter {
        ParkedFilter {
            app,
            channel: self.channel,
            provider: self.provider.clone(),
            cause: self.cause.clone(),
            category: self.category.clone(),
            delivery: self.delivery,
            id: None,
            since: self.since.map(Since::time),
            before: self.before.map(Since::time),
        }
    }

    fn is_empty(&self) -> bool {
        let ranges = [self.since, self.before];
        let texts = [&self.app, &self.cause, &self.provider, &self.category];
        texts.iter().all(|text| text.is_none())
            && ranges.iter().all(Option::is_none)
            && self.channel.is_none()
            && self.delivery.is_none()
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let filter = arguments.selection.filter(&place).await?;
    let limit = arguments.limit;
    let parked = match place {
        Place::Database(database) => {
            rows(parked::list(&database.operations, &database.caller, &filter, None, limit).await?)
        }
        Place::Console(api) => {
            let query = Query::default().with("app", filter.app).with("channel", filter.channel);
            let query = query.with("provider", filter.provider).with("cause", filter.cause);
            let query = query.with("category", filter.category).with("delivery", filter.delivery);
            let query = query.with("since", filter.since).with("before", filter.before);
            api.first(&[&"parked"], query, usize::try_from(limit)?).await?
        }
    };
    Ok(render(parked, arguments.options.json))
}

/// A parked message with the attempts to make its delivery.
#[derive(Deserialize)]
struct Shown {
    message: ParkedRow,
    attempts: Vec<AttemptRow>,
}

impl From<ParkedDetails> for Shown {
    fn from(found: ParkedDetails) -> Shown {
        Shown { message: found.parked.into(), attempts: rows(found.attempts) }
    }
}

async fn show(arguments: &ShowArguments) -> anyhow::Result<String> {
    let found = match arguments.options.open().await? {
        Place::Database(database) => {
            let found = parked::find(&database.operations, &database.caller, arguments.id).await;
            found.map(Shown::from)
        }
        Place::Console(api) => api.get(&[&"parked", &arguments.id]).await,
    };
    let Shown { message, attempts } = found
        .or_missing(|| format!("no parked message has the id {}; see `tidings parked list`", arguments.id))?;
    let mut whole = json!(message);
    whole["attempts"] = json!(attempts);
    Ok(arguments.options.report(&whole, format!("{whole:#}\n")))
}

async fn redrive(arguments: &RedriveArguments) -> anyhow::Result<String> {
    if arguments.selection.is_empty() && !arguments.all {
        return Err(InvalidInput(
            "select what to redrive: --app, --channel, --provider, --cause, --category, --since, --before or --delivery, \
             or --all"
                .to_owned(),
        )
        .into());
    }
    let database = arguments.options.place.open_database_only().await?;
    let app = match &arguments.selection.app {
        Some(app) => Some(database.app(app).await?.id),
        None => None,
    };
    let filter = arguments.selection.filter_of(app);
    let ControlPlane { operations, caller, .. } = database;
    let report = if arguments.dry_run {
        parked::preview(&operations, &caller, &filter).await?
    } else {
        parked::redrive(&operations, &caller, &filter, clock::now, |_| ()).await?
    };
    let json = report_as_json(&report, arguments.dry_run);
    Ok(arguments.options.report(&json, render_report(report, arguments.dry_run)))
}

fn report_as_json(report: &RedriveReport, dry_run: bool) -> Value {
    let counts = report.counts.iter().map(|((app, kind), count)| ((*app, kind.to_string()), *count));
    let counts: BTreeMap<_, u64> = counts.collect();
    let counts =
        counts.iter().map(|((app, what), count)| json!({"appId": app, "what": what, "count": count}));
    json!({
        "dryRun": dry_run,
        "redriven": report.redriven,
        "counts": counts.collect::<Value>(),
        "skipped": report.skipped,
        "first": rows::<ParkedRow, _>(report.first.iter().cloned()),
    })
}

fn render_report(report: RedriveReport, dry_run: bool) -> String {
    let verb = if dry_run { "Would redrive" } else { "Redrove" };
    let skipped: u64 = report.skipped.values().sum();
    let mut text = format!("{verb} {} of {}", report.redriven, report.redriven + skipped);
    if skipped > 0 {
        let reasons = report.skipped.iter().map(|(reason, count)| format!("{count} {reason}"));
        text += &format!("; skipped: {}", reasons.collect::<Vec<_>>().join(", "));
    }
    text += ".\n";
    if !report.first.is_empty() {
        text += &format!("\n{}", render(rows(report.first), false));
    }
    text
}

fn render(parked: Vec<ParkedRow>, json: bool) -> String {
    let header = ["DELIVERY", "APP", "WHAT", "RECIPIENT", "TARGET", "CAUSE", "PARKED", "REDRIVE"];
    Listing::new(parked).render(json, header, |parked| {
        [
            parked.delivery_id.map_or(parked.id, |delivery| delivery.0).to_string(),
            parked.app.clone().unwrap_or_default(),
            parked.what.clone(),
            parked.recipient.clone().unwrap_or_default(),
            parked.target.clone().unwrap_or_default(),
            excerpt(parked.cause.clone(), 40),
            parked.parked_at.to_string(),
            parked.skip.clone().unwrap_or_else(|| "yes".to_owned()),
        ]
    })
}

/// A parked message.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParkedRow {
    id: Uuid,
    #[serde(deserialize_with = "numbers::read_option")]
    app_id: Option<AppId>,
    app: Option<String>,
    /// A channel, `send` or `unknown`.
    #[serde(alias = "kind")]
    what: String,
    request_id: Option<SendId>,
    delivery_id: Option<DeliveryId>,
    recipient: Option<String>,
    /// Masked.
    target: Option<String>,
    cause: String,
    parked_at: Timestamp,
    /// Reason why a redrive leaves the message parked.
    skip: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptRow {
    number: i32,
    started_at: Timestamp,
    provider: Option<String>,
    outcome: String,
    provider_code: String,
    provider_message: String,
}

impl From<ParkedEntry> for ParkedRow {
    fn from(parked: ParkedEntry) -> ParkedRow {
        ParkedRow {
            id: parked.id,
            app_id: parked.app,
            what: ParkedKind::of(&parked).to_string(),
            request_id: parked.send_id,
            delivery_id: parked.delivery,
            target: parked.target.as_deref().map(masked),
            parked_at: parked.parked_at,
            skip: parked.skip.map(|skip| skip.as_str().to_owned()),
            app: parked.app_name,
            recipient: parked.recipient,
            cause: parked.cause,
        }
    }
}

impl From<AttemptRecord> for AttemptRow {
    fn from(attempt: AttemptRecord) -> AttemptRow {
        AttemptRow {
            number: attempt.number,
            started_at: attempt.started_at,
            provider: attempt.provider,
            outcome: attempt.outcome,
            provider_code: attempt.provider_code,
            provider_message: attempt.provider_message,
        }
    }
}
