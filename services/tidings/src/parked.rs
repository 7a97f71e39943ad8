//! `tidings parked`: messages that were parked after their last retry, or because they can never succeed.

use std::collections::BTreeMap;

use anyhow::ensure;
use clap::Subcommand;
use domain::excerpt::excerpt;
use domain::redrive::Skip;
use domain::target::masked;
use domain::{AppId, Channel, DeliveryId};
use serde_json::{Value, json};
use service_kit::clock;
use store::deliveries::redrive::{ParkedEntry, ParkedFilter, position_after};
use store::sends::pairs::PairFilter;
use uuid::Uuid;

use crate::control_plane::{ControlPlane, actor};
use crate::listing::Listing;
use crate::options::{self, Options};
use crate::refused::InvalidInput;

/// Maximum number of messages per transaction.
const PAGE: i64 = 100;
/// Maximum number of messages that the report of a redrive lists.
const SHOWN: usize = 20;

/// List, show and redrive parked messages.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings parked redrive --app shop --channel email --dry-run")]
pub(crate) enum Command {
    List(ListArguments),
    Show(ShowArguments),
    Redrive(RedriveArguments),
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
  tidings parked redrive --app shop --channel email
  tidings parked redrive --delivery 6f9a6721-db99-52b3-8e3e-78775110ebb0
  tidings parked redrive --all --json

Exit codes: 0 done, even if nothing was parked; 1 failed, but messages redriven before the failure stay redriven; 2 no
messages were selected. The audit log records every redriven message.")]
pub(crate) struct RedriveArguments {
    #[command(flatten)]
    selection: Selection,
    /// Select all parked messages
    #[arg(long, conflicts_with_all = ["app", "channel", "delivery"])]
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
    }
}

impl Selection {
    async fn filter(&self, control_plane: &ControlPlane) -> anyhow::Result<ParkedFilter> {
        let app = control_plane.app_id(self.app.as_deref()).await?;
        Ok(ParkedFilter { app, channel: self.channel, delivery: self.delivery, id: None })
    }

    fn is_empty(&self) -> bool {
        self.app.is_none() && self.channel.is_none() && self.delivery.is_none()
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let control_plane = arguments.options.open().await?;
    let filter = arguments.selection.filter(&control_plane).await?;
    let parked = control_plane.store.deliveries().list_parked(&filter, None, arguments.limit).await?;
    Ok(render(parked, arguments.options.json))
}

async fn show(arguments: &ShowArguments) -> anyhow::Result<String> {
    let control_plane = arguments.options.open().await?;
    let by_delivery = ParkedFilter { delivery: Some(DeliveryId(arguments.id)), ..ParkedFilter::default() };
    let by_id = ParkedFilter { id: Some(arguments.id), ..ParkedFilter::default() };
    let mut found = control_plane.store.deliveries().list_parked(&by_delivery, None, 1).await?;
    if found.is_empty() {
        found = control_plane.store.deliveries().list_parked(&by_id, None, 1).await?;
    }
    let parked = found.first();
    ensure!(parked.is_some(), "no parked message has the id {}; see `tidings parked list`", arguments.id);
    let Some(parked) = parked else { return Ok(String::new()) };
    let attempts = attempts(&control_plane, parked).await?;
    let mut whole = as_json(parked);
    whole["attempts"] = attempts;
    Ok(arguments.options.report(&whole, format!("{whole:#}\n")))
}

async fn attempts(control_plane: &ControlPlane, parked: &ParkedEntry) -> anyhow::Result<Value> {
    let (Some(app), Some(send_id), Some(_)) = (parked.app, parked.send_id, parked.delivery) else {
        return Ok(json!([]));
    };
    let recipient = parked.recipient.as_deref();
    let filter = PairFilter { recipient, channel: parked.channel(), status: None };
    let listed = control_plane.store.sends().list_pairs(app, send_id, filter, None, PAGE).await?;
    let delivery = listed.into_iter().find(|delivery| delivery.id == parked.delivery);
    let attempts = delivery.map(|delivery| delivery.attempts).unwrap_or_default();
    let present = |attempt: &store::sends::pairs::AttemptRecord| {
        json!({
            "number": attempt.number, "startedAt": attempt.started_at, "provider": attempt.provider,
            "outcome": attempt.outcome, "providerCode": attempt.provider_code,
            "providerMessage": attempt.provider_message,
        })
    };
    Ok(attempts.iter().map(present).collect())
}

async fn redrive(arguments: &RedriveArguments) -> anyhow::Result<String> {
    if arguments.selection.is_empty() && !arguments.all {
        return Err(InvalidInput(
            "select what to redrive: --app, --channel or --delivery, or --all".to_owned(),
        )
        .into());
    }
    let control_plane = arguments.options.open().await?;
    let filter = arguments.selection.filter(&control_plane).await?;
    let store = &control_plane.store;
    let actor = actor();
    let mut report = Report::default();
    let mut after = None;
    loop {
        let page = if arguments.dry_run {
            store.deliveries().list_parked(&filter, after, PAGE).await?
        } else {
            store.deliveries().redrive(&filter, after, PAGE, clock::now(), &actor).await?
        };
        let Some(last) = position_after(&page) else { break };
        after = Some(last);
        report.add(page);
    }
    let json = report.as_json(arguments.dry_run);
    Ok(arguments.options.report(&json, report.render(arguments.dry_run)))
}

/// Result of a redrive or of its dry run.
#[derive(Default)]
struct Report {
    redriven: u64,
    by_app_and_channel: BTreeMap<(Option<AppId>, String), u64>,
    skipped: BTreeMap<&'static str, u64>,
    first: Vec<ParkedEntry>,
}

impl Report {
    fn add(&mut self, page: Vec<ParkedEntry>) {
        for parked in page {
            match parked.skip {
                Some(skip) => *self.skipped.entry(skip.as_str()).or_default() += 1,
                None => {
                    self.redriven += 1;
                    let what = (parked.app, what(&parked));
                    *self.by_app_and_channel.entry(what).or_default() += 1;
                }
            }
            if self.first.len() < SHOWN {
                self.first.push(parked);
            }
        }
    }

    fn as_json(&self, dry_run: bool) -> Value {
        let counts = self.by_app_and_channel.iter();
        let counts = counts.map(|((app, what), count)| json!({"appId": app, "what": what, "count": count}));
        json!({
            "dryRun": dry_run,
            "redriven": self.redriven,
            "counts": counts.collect::<Value>(),
            "skipped": self.skipped,
            "first": self.first.iter().map(as_json).collect::<Value>(),
        })
    }

    fn render(self, dry_run: bool) -> String {
        let verb = if dry_run { "Would redrive" } else { "Redrove" };
        let skipped: u64 = self.skipped.values().sum();
        let mut text = format!("{verb} {} of {}", self.redriven, self.redriven + skipped);
        if skipped > 0 {
            let reasons = self.skipped.iter().map(|(reason, count)| format!("{count} {reason}"));
            text += &format!("; skipped: {}", reasons.collect::<Vec<_>>().join(", "));
        }
        text += ".\n";
        if !self.first.is_empty() {
            text += &format!("\n{}", render(self.first, false));
        }
        text
    }
}

/// Returns the channel if the message is a job, otherwise `send` or `unknown`.
fn what(parked: &ParkedEntry) -> String {
    match (parked.channel(), parked.stream) {
        (Some(channel), _) => channel.to_string(),
        (None, Some(_)) => "send".to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

fn render(parked: Vec<ParkedEntry>, json: bool) -> String {
    let header = ["DELIVERY", "APP", "WHAT", "RECIPIENT", "TARGET", "CAUSE", "PARKED", "REDRIVE"];
    Listing::new(parked).render(json, as_json, header, |parked| {
        [
            parked.delivery.map_or(parked.id, |delivery| delivery.0).to_string(),
            parked.app_name.clone().unwrap_or_default(),
            what(parked),
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
        "what": what(parked),
        "requestId": parked.send_id,
        "deliveryId": parked.delivery,
        "recipient": parked.recipient,
        "target": parked.target.as_deref().map(masked),
        "cause": parked.cause,
        "parkedAt": parked.parked_at,
        "skip": parked.skip.map(Skip::as_str),
    })
}
