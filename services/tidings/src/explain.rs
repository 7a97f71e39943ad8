mod page;

use anyhow::bail;
use domain::{PhoneNumber, SendId};
use operations::explain::{self, Explained, ExplainedSends, Explanation, Now};
use operations::requests::SendFilter;
use operations::users::{self, UserFilter};
use operations::{Caller, Operations};
use serde_json::{Value, json};
use store::control::app::App;
use uuid::Uuid;

use crate::control_plane::ControlPlane;
use crate::options::AppArguments;
use crate::refused::OrMissing as _;
use crate::sends::{Since, as_json, parse_since};

/// Users that an error about a shared address names.
const MOST_NAMED: usize = 10;

/// Explain why a person got a notification or did not.
///
/// With a request, this shows what became of it for the person on each channel, the cause and the fix, every event with its
/// times, and what the same send would do now. Without, it lists the latest sends to the person with their verdicts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings explain shop ada
  tidings explain shop ada@example.com --category orders --since 2d
  tidings explain shop ada 018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11
  tidings explain shop ada --category orders --now

Exit codes: 0 explained; 1 the app, user or request is unknown; 2 the command line is not usable.
docs/statuses.md lists every status and reason.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    app: AppArguments,
    /// Identifier, email address or phone number of the person
    user: String,
    /// The requestId from the answer to the send
    request: Option<Uuid>,
    /// Only sends of this category; also the category for --now
    #[arg(long, conflicts_with = "request")]
    category: Option<String>,
    /// Only sends accepted since this time (2026-11-29T09:00:00Z) or within this duration (2h, 3d)
    #[arg(long, value_name = "TIME", value_parser = parse_since, conflicts_with = "request")]
    since: Option<Since>,
    /// Only sends before this one, which a page names as `next`
    #[arg(long, value_name = "REQUEST", conflicts_with = "request")]
    before: Option<Uuid>,
    /// Maximum number of sends
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=50))]
    limit: u16,
    /// Only say what a send, of --category if it is given, would do now
    #[arg(long, conflicts_with_all = ["request", "since", "before"])]
    now: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (ControlPlane { operations, caller, .. }, app) = arguments.app.open().await?;
    let json = arguments.app.options.json;
    let user = &person(&operations, &caller, &app, &arguments.user).await?;
    if let Some(request) = arguments.request {
        let found = explain::request(&operations, &caller, app.id, user, SendId(request), true).await;
        let found = found.or_missing(|| {
            format!(
                "app {} has no request {request}; `tidings sends {}` lists the requests",
                app.name, app.name
            )
        })?;
        let explained = known(found, user, &app.name)?;
        return Ok(match explained {
            Some(explained) if json => format!("{:#}\n", explanation_as_json(request, &explained)),
            Some(explained) => page::page(request, &explained),
            None => erased(json),
        });
    }
    let category = arguments.category.as_deref();
    let (since, before) = (arguments.since.map(Since::time), arguments.before.map(SendId));
    let filter = SendFilter { category, since, before, ..SendFilter::default() };
    let limit = if arguments.now { 0 } else { arguments.limit.into() };
    let found = explain::latest(&operations, &caller, app.id, user, filter, limit, arguments.now).await;
    let found = known(found.or_missing(String::new)?, user, &app.name)?;
    Ok(match found {
        Some(found) if json => format!("{:#}\n", sends_as_json(&found)),
        Some(found) => page::list(&app.name, &found),
        None => erased(json),
    })
}

/// Returns the identifier of the user with this identifier or, if there is none, with this email address or phone number. A text that no
/// user has stays as it is.
async fn person(operations: &Operations, caller: &Caller, app: &App, text: &str) -> anyhow::Result<String> {
    let filter = if text.contains('@') {
        UserFilter::Email(text)
    } else if PhoneNumber::parse(text).is_ok() {
        UserFilter::PhoneNumber(text)
    } else {
        return Ok(text.to_owned());
    };
    if users::find(operations, caller, app.id, text).await.is_ok() {
        return Ok(text.to_owned());
    }
    let page = users::list(operations, caller, app.id, filter, None, MOST_NAMED).await?;
    let named: Vec<&str> = page.users.iter().map(|(user, _)| user.identifier.as_str()).collect();
    match named[..] {
        [] => Ok(text.to_owned()),
        [one] => Ok(one.to_owned()),
        _ => {
            let more = if page.next.is_some() { ", …" } else { "" };
            bail!(
                "several users of app {} have {text}: {}{more}; name one of them",
                app.name,
                named.join(", ")
            )
        }
    }
}

/// Returns None if the user was erased.
fn known<T>(found: Explained<T>, user: &str, app: &str) -> anyhow::Result<Option<Box<T>>> {
    match found {
        Explained::Found(found) => Ok(Some(found)),
        Explained::Erased => Ok(None),
        Explained::UnknownUser { similar } if similar.is_empty() => {
            bail!("app {app} has no user {user:?}, and none with a similar identifier")
        }
        Explained::UnknownUser { similar } => {
            bail!("app {app} has no user {user:?}; similar identifiers: {}", similar.join(", "))
        }
    }
}

fn erased(json: bool) -> String {
    let verdict = "The user was erased.";
    if json { format!("{:#}\n", json!({"verdict": verdict})) } else { format!("{verdict}\n") }
}

fn sends_as_json(found: &ExplainedSends) -> Value {
    let sends = found.sends.iter().map(|explained| {
        let mut send = as_json(&explained.send);
        send["verdict"] = json!(explained.verdict);
        send
    });
    json!({
        "person": {"identifier": found.person.identifier, "name": found.person.name},
        "sends": sends.collect::<Vec<_>>(),
        "next": found.next,
        "now": found.now.as_ref().map(now_as_json),
    })
}

fn explanation_as_json(request: Uuid, found: &Explanation) -> Value {
    let stored = found.request.as_ref().map(|stored| {
        json!({
            "requestId": request, "title": stored.title, "category": stored.category,
            "template": stored.template.as_ref().map(|(name, version)| json!({"identifier": name, "version": version})),
            "acceptedAt": stored.accepted_at, "sendAt": stored.send_at, "expiresAt": stored.expires_at,
            "cancelledAt": stored.cancelled_at,
        })
    });
    let story = found.story.as_ref();
    let channels = story.map(|story| story.channels.as_slice()).unwrap_or_default().iter().map(|channel| {
        json!({
            "channel": channel.channel, "status": channel.status, "reason": channel.reason,
            "sentence": channel.sentence, "fix": channel.fix, "documentation": format!("statuses.md#{}", channel.anchor),
        })
    });
    let events = story.map(|story| story.events.as_slice()).unwrap_or_default().iter().map(|event| {
        json!({
            "at": event.at, "kind": event.kind, "channel": event.channel, "text": event.text,
            "waitedMs": event.waited_ms, "tookMs": event.took_ms,
        })
    });
    json!({
        "verdict": found.verdict,
        "person": {"identifier": found.person.identifier, "name": found.person.name},
        "request": stored,
        "channels": channels.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
        "now": found.now.as_ref().map(now_as_json),
    })
}

fn now_as_json(now: &Now) -> Value {
    let channels = now.channels.iter().map(|decided| {
        json!({"channel": decided.channel, "sends": decided.reason.is_none(), "reason": decided.reason})
    });
    json!({"category": now.category, "text": now.line(), "channels": channels.collect::<Vec<_>>()})
}
