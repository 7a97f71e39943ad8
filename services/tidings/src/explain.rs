mod page;
mod row;

use std::fmt::Display;

use anyhow::{anyhow, bail};
use domain::{PhoneNumber, SendId};
use operations::Object;
use operations::explain::{self, Explained};
use operations::requests::SendFilter;
use operations::users::{self, UserFilter};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use self::row::{ExplanationBody, ExplanationRow, SendsRow};
use crate::admin_api::{Query, is_missing, names, similar};
use crate::app::AppRow;
use crate::options::AppArguments;
use crate::place::Place;
use crate::refused::OrMissing as _;
use crate::sends::{Since, parse_since};

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
    let (place, app) = arguments.app.open().await?;
    let json = arguments.app.options.json;
    let user = person(&place, &app, &arguments.user).await?;
    if let Some(request) = arguments.request {
        return Ok(match one(&place, &app, &user, request).await? {
            Some(explained) if json => format!("{:#}\n", json!(explained)),
            Some(explained) => page::page(request, &explained),
            None => erased(json),
        });
    }
    Ok(match latest(arguments, &place, &app, &user).await? {
        Some(found) if json => format!("{:#}\n", json!(found)),
        Some(found) => page::list(&app.name, &found),
        None => erased(json),
    })
}

/// Returns None if the user was erased.
async fn one(
    place: &Place,
    app: &AppRow,
    user: &str,
    request: Uuid,
) -> anyhow::Result<Option<ExplanationRow>> {
    let missing = || {
        format!("app {} has no request {request}; `tidings sends {}` lists the requests", app.name, app.name)
    };
    match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let found = explain::request(operations, caller, app.id, user, SendId(request), true).await;
            let found = known(found.or_missing(missing)?, user, &app.name)?;
            Ok(found.map(|found| ExplanationRow::new(request, *found)))
        }
        Place::Console(api) => {
            let query = Query::default().with("person", Some(user)).with("request", Some(request));
            let path: [&dyn Display; 3] = [&"apps", &app.id, &"explain"];
            let found = api.call(Method::GET, &path, &query, None).await;
            match found {
                Err(error) if names(&error, Object::User) => Err(unknown(&app.name, user, &similar(&error))),
                found => Ok(found.map(ExplanationBody::into_explanation).or_missing(missing)?),
            }
        }
    }
}

/// Returns None if the user was erased.
async fn latest(
    arguments: &Arguments,
    place: &Place,
    app: &AppRow,
    user: &str,
) -> anyhow::Result<Option<SendsRow>> {
    let category = arguments.category.as_deref();
    let (since, before) = (arguments.since.map(Since::time), arguments.before);
    match place {
        Place::Database(database) => {
            let filter = SendFilter { category, since, before: before.map(SendId), ..SendFilter::default() };
            let limit = if arguments.now { 0 } else { arguments.limit.into() };
            let (operations, caller) = (&database.operations, &database.caller);
            let found = explain::latest(operations, caller, app.id, user, filter, limit, arguments.now).await;
            Ok(known(found.or_missing(String::new)?, user, &app.name)?.map(|found| (*found).into()))
        }
        Place::Console(api) => {
            let query = Query::default().with("person", Some(user)).with("category", category);
            let query = query.with("since", since).with("cursor", before.map(web::cursor::write));
            let query = query.with("now", arguments.now.then_some(true));
            let query = query.with("limit", (!arguments.now).then_some(arguments.limit));
            let query = query.with("sends", arguments.now.then_some(false));
            let path: [&dyn Display; 3] = [&"apps", &app.id, &"explain"];
            match api.call(Method::GET, &path, &query, None).await {
                Err(error) if is_missing(&error) => Err(unknown(&app.name, user, &similar(&error))),
                found => Ok(found.map(ExplanationBody::into_sends)?),
            }
        }
    }
}

/// A person in a list of the admin API.
#[derive(Deserialize)]
struct PersonBody {
    identifier: String,
}

/// Returns the identifier of the user with this identifier or, if there is none, with this email address or phone number. A text that no
/// user has stays as it is.
async fn person(place: &Place, app: &AppRow, text: &str) -> anyhow::Result<String> {
    let filter = if text.contains('@') {
        UserFilter::Email(text)
    } else if PhoneNumber::parse(text).is_ok() {
        UserFilter::PhoneNumber(text)
    } else {
        return Ok(text.to_owned());
    };
    let (named, more): (Vec<String>, bool) = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            if users::find(operations, caller, app.id, text).await.is_ok() {
                return Ok(text.to_owned());
            }
            let page = users::list(operations, caller, app.id, filter, None, MOST_NAMED).await?;
            let named = page.users.into_iter().map(|(user, _)| user.identifier);
            (named.collect(), page.next.is_some())
        }
        Place::Console(api) => {
            if api.get::<Value>(&[&"apps", &app.id, &"people", &text]).await.is_ok() {
                return Ok(text.to_owned());
            }
            let parameter = if text.contains('@') { "email" } else { "phoneNumber" };
            let query = Query::default().with(parameter, Some(text));
            let path: [&dyn Display; 3] = [&"apps", &app.id, &"people"];
            let (found, next) = api.after::<PersonBody>(&path, query, MOST_NAMED, None).await?;
            (found.into_iter().map(|person| person.identifier).collect(), next.is_some())
        }
    };
    match &named[..] {
        [] => Ok(text.to_owned()),
        [one] => Ok(one.clone()),
        _ => {
            let more = if more { ", …" } else { "" };
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
        Explained::UnknownUser { similar } => Err(unknown(app, user, &similar)),
    }
}

fn unknown(app: &str, user: &str, similar: &[String]) -> anyhow::Error {
    if similar.is_empty() {
        return anyhow!("app {app} has no user {user:?}, and none with a similar identifier");
    }
    anyhow!("app {app} has no user {user:?}; similar identifiers: {}", similar.join(", "))
}

fn erased(json: bool) -> String {
    let verdict = "The user was erased.";
    if json { format!("{:#}\n", json!({"verdict": verdict})) } else { format!("{verdict}\n") }
}
