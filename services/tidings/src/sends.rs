use std::time::Duration;

use domain::{SendId, Status, Timestamp};
use operations::requests::{self, SendFilter};
use serde_json::{Value, json};
use service_kit::clock;
use store::sends::list::ListedSend;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::AppArguments;

/// List the sends of an app, latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings sends shop
  tidings sends shop --recipient ada --since 2d
  tidings sends shop --category orders --status failed --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    app: AppArguments,
    /// Only sends to this user
    #[arg(long, value_name = "USER")]
    recipient: Option<String>,
    /// Only sends of this category
    #[arg(long)]
    category: Option<String>,
    /// Only sends with a delivery in this state, to the recipient if one is named: waiting, sent, failed, parked, …
    #[arg(long, value_parser = parse_status)]
    status: Option<Status>,
    /// Only sends accepted since this time (2026-11-29T09:00:00Z) or within this duration (2h, 3d)
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Since>,
    /// Only sends before this one, which a page names as `next`
    #[arg(long, value_name = "REQUEST")]
    before: Option<uuid::Uuid>,
    /// Maximum number of sends
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
}

/// A time, or how long ago it was.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    Time(Timestamp),
    Ago(Duration),
}

impl Since {
    pub(crate) fn time(self) -> Timestamp {
        match self {
            Since::Time(time) => time,
            Since::Ago(ago) => clock::now() - ago,
        }
    }
}

pub(crate) fn parse_since(text: &str) -> Result<Since, String> {
    if let Some(time) = Timestamp::parse(text) {
        return Ok(Since::Time(time));
    }
    let ago = humantime::parse_duration(text);
    ago.map(Since::Ago).map_err(|_| {
        "expected a time such as 2026-11-29T09:00:00Z, or a duration such as 2h or 3d".to_owned()
    })
}

fn parse_status(text: &str) -> Result<Status, String> {
    text.parse().map_err(|_| {
        let names: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (ControlPlane { operations, caller, .. }, app) = arguments.app.open().await?;
    let filter = SendFilter {
        recipient: arguments.recipient.as_deref(),
        category: arguments.category.as_deref(),
        status: arguments.status,
        since: arguments.since.map(Since::time),
        before: arguments.before.map(SendId),
    };
    let page = requests::list(&operations, &caller, app.id, filter, arguments.limit.into()).await?;
    let json = arguments.app.options.json;
    if page.sends.is_empty() && !json && page.next.is_none() {
        return Ok("No send matches.\n".to_owned());
    }
    let header = ["REQUEST", "ACCEPTED", "CATEGORY", "TEMPLATE", "RECIPIENTS", "TITLE"];
    let next = page.next.map(|next| ("before", next.to_string()));
    Ok(Listing::new(page.sends).render_page(json, next, as_json, header, |send| {
        let template = send.template.as_ref().map(|(template, version)| format!("{template}@{version}"));
        [
            send.send_id.to_string(),
            send.accepted_at.to_string(),
            send.category.clone().unwrap_or_else(|| "-".to_owned()),
            template.unwrap_or_else(|| "-".to_owned()),
            send.recipients.to_string(),
            send.title.clone().unwrap_or_default() + if send.cancelled { " (cancelled)" } else { "" },
        ]
    }))
}

pub(crate) fn as_json(send: &ListedSend) -> Value {
    let template = send
        .template
        .as_ref()
        .map(|(identifier, version)| json!({"identifier": identifier, "version": version}));
    json!({
        "requestId": send.send_id,
        "title": send.title,
        "category": send.category,
        "template": template,
        "recipients": send.recipients,
        "cancelled": send.cancelled,
        "acceptedAt": send.accepted_at,
        "sendAt": send.send_at,
    })
}
