//! A request with a valid token, and how handlers read it.

use std::cell::RefCell;

use actix_web::HttpRequest;
use actix_web::http::header::{AUTHORIZATION, IF_MATCH};
use credentials::secrets::sha256;
use domain::body::Body;
use domain::{AppId, Channel, Problem, Timestamp};
use operations::tokens::{self, TokenCaller};
use operations::{Caller, Operations, apps};
use serde_json::{Value, json};
use store::control::app::App;
use uuid::Uuid;
use web::admission::Admission;
use web::failure::{Failure, valid_or_problems};
use web::query::{Query, names};

use super::refused::Refused;
use super::route::{Route, parameter};
use crate::console::Console;

/// Number of elements of a page if the caller names none.
const PAGE: i64 = 50;

pub(super) type Answer<T> = Result<T, Refused>;

pub(super) struct Call<'a> {
    pub(super) console: &'a Console,
    pub(super) caller: Caller,
    request: &'a HttpRequest,
    route: &'static Route,
    /// Values of the path's parameters, in order.
    path: Vec<String>,
    app: Option<App>,
    body: RefCell<Option<Value>>,
}

/// Finds the caller of the token in the header `Authorization`.
pub(super) async fn authenticate(
    console: &Console,
    admission: &Admission,
    request: &HttpRequest,
) -> Result<Caller, Failure> {
    let found = match bearer(request) {
        Some(token) => look_up(console, admission, request, token).await?,
        None => None,
    };
    let Some(found) = found else {
        let message = match request.headers().get(AUTHORIZATION) {
            None => {
                "the header Authorization is missing: send `Bearer` and a token that `tidings token create` printed"
            }
            Some(_) => "the token is unknown, expired or revoked; `tidings token create` prints a new one",
        };
        let failure = Failure::unauthorized("invalid_token", message);
        return Err(admission.refuse(request, failure).await);
    };
    admission.admit_token(request, found.id).await?;
    Ok(found.caller)
}

/// Looks a token up. Unless it was valid at its last look-up, this counts against the limit of the peer first, so that wrong tokens do not
/// keep the database busy.
async fn look_up(
    console: &Console,
    admission: &Admission,
    request: &HttpRequest,
    token: &str,
) -> Result<Option<TokenCaller>, Failure> {
    if !tokens::is_well_formed(token) {
        return Ok(None);
    }
    let (seen, digest) = (&console.admin.seen_tokens, sha256(token.as_bytes()));
    let is_seen = seen.get(&digest).await.is_some();
    if !is_seen {
        admission.count_look_up(request).await?;
    }
    let found = tokens::caller(&console.operations, token).await?;
    if found.is_some() {
        seen.insert(digest, ()).await;
    } else if is_seen {
        seen.invalidate(&digest).await;
    }
    Ok(found)
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let mut headers = request.headers().get_all(AUTHORIZATION);
    let (only, None) = (headers.next()?, headers.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl<'a> Call<'a> {
    pub(super) fn new(
        console: &'a Console,
        caller: Caller,
        request: &'a HttpRequest,
        (route, path): (&'static Route, Vec<String>),
        (app, body): (Option<App>, Option<Value>),
    ) -> Call<'a> {
        Call { console, caller, request, route, path, app, body: RefCell::new(body) }
    }

    pub(super) fn operations(&self) -> &Operations {
        &self.console.operations
    }

    /// Returns the value of a parameter of the path.
    pub(super) fn path(&self, name: &str) -> &str {
        let place = self.route.path_parameters().position(|known| known == name);
        place.and_then(|place| self.path.get(place)).map_or("", String::as_str)
    }

    /// Returns the app in the path.
    pub(super) fn app(&self) -> Answer<App> {
        Ok(self.app.clone().ok_or_else(|| Failure::Defect("the path of the call has no app".to_owned()))?)
    }

    /// Finds the app that the parameter `app` of the query names.
    pub(super) async fn app_of_query(&self) -> Answer<Option<AppId>> {
        let name = self.query(|query, problems| query.filter("app", problems))?;
        let Some(name) = name else { return Ok(None) };
        Ok(Some(apps::find(self.operations(), &self.caller, &name).await?.id))
    }

    /// Reads the UUID in the path.
    pub(super) fn uuid(&self, name: &str) -> Answer<Uuid> {
        let id = self.path(name).parse();
        Ok(id.map_err(|_| Failure::problem(name, "invalid_id", format!("{name} must be a UUID")))?)
    }

    /// Reads the whole number in the path.
    pub(super) fn number(&self, name: &str) -> Answer<i64> {
        let number = self.path(name).parse().ok().filter(|number: &i64| *number >= 0);
        let problem = || Failure::problem(name, "invalid_id", format!("{name} must be a whole number"));
        Ok(number.ok_or_else(problem)?)
    }

    /// Reads the query. A parameter that the call does not have is a problem.
    pub(super) fn query<T>(&self, read: impl FnOnce(&Query, &mut Vec<Problem>) -> T) -> Answer<T> {
        let mut problems = Vec::new();
        let read = read(&Query::of(self.request), &mut problems);
        Ok(valid_or_problems(Some(read), problems)?)
    }

    /// Refuses parameters that the call does not have.
    pub(super) fn check_query(&self) -> Result<(), Failure> {
        let is_unknown = |name: &str| self.route.query.iter().all(|known| known.name != name);
        let unknown = names(self.request).find(|name| is_unknown(name));
        let Some(unknown) = unknown else { return Ok(()) };
        let message = format!("{unknown} is not a parameter of this call");
        Err(Failure::problem(&unknown, "unknown_parameter", message))
    }

    /// Reads the members of the body. A member that the body does not have is a problem.
    pub(super) fn body<B: Body, T>(
        &self,
        read: impl FnOnce(&mut B, &mut Vec<Problem>) -> Option<T>,
    ) -> Answer<T> {
        Ok(web::body::read_members(self.document(), true, read)?)
    }

    /// Returns the whole body. An empty one is an object without members.
    pub(super) fn document(&self) -> Value {
        self.body.borrow_mut().take().unwrap_or_else(|| json!({}))
    }

    /// Compares the header `If-Match` with the version of an object. A call without the header is not conditional.
    pub(super) fn expected_version(&self) -> Answer<Option<i64>> {
        let Some(header) = self.request.headers().get(IF_MATCH) else { return Ok(None) };
        let version = header
            .to_str()
            .ok()
            .and_then(|text| text.trim().strip_prefix('"')?.strip_suffix('"')?.parse().ok());
        let message = "If-Match must be the `version` of an earlier answer in quotation marks, such as \"3\"";
        Ok(Some(version.ok_or_else(|| Failure::problem("If-Match", "invalid_version", message))?))
    }
}

/// Reads the parameter `limit`.
pub(super) fn limit(query: &Query, problems: &mut Vec<Problem>) -> usize {
    let limit = query.number("limit", 1..=parameter::MOST, problems).unwrap_or(PAGE);
    usize::try_from(limit).unwrap_or(0)
}

/// Reads a time.
pub(super) fn time(query: &Query, name: &'static str, problems: &mut Vec<Problem>) -> Option<Timestamp> {
    let text = query.filter(name, problems)?;
    let time = Timestamp::parse(&text);
    if time.is_none() {
        let message = format!("{name} must be an RFC 3339 date-time, such as 2027-01-31T09:00:00Z");
        problems.push(Problem::new(name, "invalid_time", message));
    }
    time
}

/// Reads a UUID.
pub(super) fn uuid(query: &Query, name: &'static str, problems: &mut Vec<Problem>) -> Option<Uuid> {
    let text = query.filter(name, problems)?;
    let id = text.parse().ok();
    if id.is_none() {
        problems.push(Problem::new(name, "invalid_id", format!("{name} must be a UUID")));
    }
    id
}

/// Reads a channel with providers.
pub(super) fn channel(query: &Query, problems: &mut Vec<Problem>) -> Option<Channel> {
    let channels = Channel::EXTERNAL.map(|channel| (channel.as_str(), channel));
    query.one_of("channel", &channels, problems)
}
