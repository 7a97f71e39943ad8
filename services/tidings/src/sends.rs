use std::fmt;
use std::time::Duration;

use domain::{SendId, Status, Timestamp};
use operations::requests::{self, SendFilter};
use serde::{Deserialize, Serialize};
use service_kit::clock;
use store::sends::list::ListedSend;

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::AppArguments;
use crate::place::Place;

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

/// A send.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendRow {
    pub(crate) request_id: SendId,
    pub(crate) title: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) template: Option<UsedTemplate>,
    recipients: i32,
    cancelled: bool,
    pub(crate) accepted_at: Timestamp,
    send_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct UsedTemplate {
    identifier: String,
    version: i32,
}

impl From<(String, i32)> for UsedTemplate {
    fn from((identifier, version): (String, i32)) -> UsedTemplate {
        UsedTemplate { identifier, version }
    }
}

impl fmt::Display for UsedTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.identifier, self.version)
    }
}

impl From<ListedSend> for SendRow {
    fn from(send: ListedSend) -> SendRow {
        SendRow {
            request_id: send.send_id,
            title: send.title,
            category: send.category,
            template: send.template.map(UsedTemplate::from),
            recipients: send.recipients,
            cancelled: send.cancelled,
            accepted_at: send.accepted_at,
            send_at: send.send_at,
        }
    }
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (place, app) = arguments.app.open().await?;
    let Arguments { recipient, category, status, since, before, limit, .. } = arguments;
    let (since, limit) = (since.map(Since::time), usize::from(*limit));
    let (sends, next): (Vec<SendRow>, _) = match place {
        Place::Database(database) => {
            let (recipient, category) = (recipient.as_deref(), category.as_deref());
            let filter =
                SendFilter { recipient, category, status: *status, since, before: before.map(SendId) };
            let page = requests::list(&database.operations, &database.caller, app.id, filter, limit).await?;
            (rows(page.sends), page.next.map(|next| next.to_string()))
        }
        Place::Console(api) => {
            let query = Query::default().with("recipient", recipient.as_ref());
            let query = query.with("category", category.as_ref()).with("status", *status);
            let query = query.with("since", since);
            let before = before.map(|before| before.to_string());
            api.after(&[&"apps", &app.id, &"requests"], query, limit, before).await?
        }
    };
    let json = arguments.app.options.json;
    if sends.is_empty() && !json && next.is_none() {
        return Ok("No send matches.\n".to_owned());
    }
    let header = ["REQUEST", "ACCEPTED", "CATEGORY", "TEMPLATE", "RECIPIENTS", "TITLE"];
    let next = next.map(|next| ("before", next));
    Ok(Listing::new(sends).render_page(json, next, header, |send| {
        [
            send.request_id.to_string(),
            send.accepted_at.to_string(),
            send.category.clone().unwrap_or_else(|| "-".to_owned()),
            send.template.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            send.recipients.to_string(),
            send.title.clone().unwrap_or_default() + if send.cancelled { " (cancelled)" } else { "" },
        ]
    }))
}
