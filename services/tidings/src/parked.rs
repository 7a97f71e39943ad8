mod run;

use std::collections::BTreeMap;

use clap::Subcommand;
use domain::excerpt::excerpt;
use domain::redrive::Skip;
use domain::target::masked;
use domain::{Channel, DeliveryId};
use operations::parked::{self, ParkedDetails, ParkedKind, RedriveReport};
use serde_json::{Value, json};
use service_kit::clock;
use store::deliveries::redrive::{ParkedEntry, ParkedFilter};
use store::sends::pairs::AttemptRecord;
use uuid::Uuid;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::{self, Options};
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
    async fn filter(&self, control_plane: &ControlPlane) -> anyhow::Result<ParkedFilter> {
        let app = control_plane.app_id(self.app.as_deref()).await?;
        Ok(ParkedFilter {
            app,
            channel: self.channel,
            provider: self.provider.clone(),
            cause: self.cause.clone(),
            category: self.category.clone(),
            delivery: self.delivery,
            id: None,
            since: self.since.map(Since::time),
            before: self.before.map(Since::time),
        })
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
    let control_plane = arguments.options.open().await?;
    let filter = arguments.selection.filter(&control_plane).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let parked = parked::list(&operations, &caller, &filter, None, arguments.limit).await?;
    Ok(render(parked, arguments.options.json))
}

async fn show(arguments: &ShowArguments) -> anyhow::Result<String> {
    let ControlPlane { operations, caller, .. } = arguments.options.open().await?;
    let found = parked::find(&operations, &caller, arguments.id).await;
    let ParkedDetails { parked, attempts } = found
        .or_missing(|| format!("no parked message has the id {}; see `tidings parked list`", arguments.id))?;
    let mut whole = as_json(&parked);
    whole["attempts"] = attempts.iter().map(attempt_as_json).collect();
    Ok(arguments.options.report(&whole, format!("{whole:#}\n")))
}

fn attempt_as_json(attempt: &AttemptRecord) -> Value {
    json!({
        "number": attempt.number, "startedAt": attempt.started_at, "provider": attempt.provider,
        "outcome": attempt.outcome, "providerCode": attempt.provider_code,
        "providerMessage": attempt.provider_message,
    })
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
    let control_plane = arguments.options.open().await?;
    let filter = arguments.selection.filter(&control_plane).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
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
        "first": report.first.iter().map(as_json).collect::<Value>(),
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
        text += &format!("\n{}", render(report.first, false));
    }
    text
}

fn render(parked: Vec<ParkedEntry>, json: bool) -> String {
    let header = ["DELIVERY", "APP", "WHAT", "RECIPIENT", "TARGET", "CAUSE", "PARKED", "REDRIVE"];
    Listing::new(parked).render(json, as_json, header, |parked| {
        [
            parked.delivery.map_or(parked.id, |delivery| delivery.0).to_string(),
            parked.app_name.clone().unwrap_or_default(),
            ParkedKind::of(parked).to_string(),
            parked.recipient.clone().unwrap_or_default(),
            parked.target.as_deref().map(masked).unwrap_or_default(),
            excerpt(parked.cause.clone(), 40),
            parked.parked_at.to_string(),
            parked.skip.map_or("yes", Skip::as_str).to_owned(),
        ]
    })
}

fn as_json(parked: &ParkedEntry) -> Value {
    json!({
        "id": parked.id,
        "appId": parked.app,
        "app": parked.app_name,
        "what": ParkedKind::of(parked).to_string(),
        "requestId": parked.send_id,
        "deliveryId": parked.delivery,
        "recipient": parked.recipient,
        "target": parked.target.as_deref().map(masked),
        "cause": parked.cause,
        "parkedAt": parked.parked_at,
        "skip": parked.skip.map(Skip::as_str),
    })
}
