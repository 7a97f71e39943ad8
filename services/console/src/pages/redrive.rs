//! The preview of a redrive, its start as a run, and the page of a run.

use actix_web::HttpRequest;
use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use askama::Template;
use domain::redrive::{Pause, RunState, Skip};
use domain::target::masked;
use domain::{AppId, Channel, DeliveryId, Timestamp};
use operations::parked::ParkedKind;
use operations::redrives::{self, LARGE, MOST_SELECTED, NewRedrive, RATES, RedrivePreview};
use operations::{OperationError, Permission};
use service_kit::clock;
use store::deliveries::redrive::run::RedriveRun;
use store::deliveries::redrive::{ParkedEntry, ParkedFilter};

use super::erase::status;
use super::shell::{PersonLink, Visit};
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::{Change, asks_password};
use crate::console::Console;
use crate::query::Pairs;
use crate::route::encoded;
use crate::text;

/// Ages with which a preview leaves out older messages.
const AGES: [(&str, &str); 5] =
    [("", "all"), ("1h", "last hour"), ("6h", "last 6 hours"), ("1d", "last day"), ("7d", "last week")];

/// The fields of a preview: they select messages and choose a rate.
pub(crate) struct Fields {
    filter: ParkedFilter,
    /// Age of the oldest messages, as in [`AGES`].
    age: String,
    rate: u32,
}

impl Fields {
    fn read(app: AppId, pairs: &Pairs) -> Result<Fields, Refusal> {
        let text = |name: &str| pairs.text(name).map(str::to_owned);
        let bad = |name: &str| Refusal::Invalid(format!("The value of {name} is not valid."));
        let channel = pairs.text("channel").map(str::parse::<Channel>).transpose();
        let delivery = pairs.text("delivery").map(str::parse::<DeliveryId>).transpose();
        let rate = pairs.text("rate").map(str::parse::<u32>).transpose();
        let age = pairs.text("age").unwrap_or_default().to_owned();
        let since = match (pairs.text("since"), text::duration(&age)) {
            (Some(since), _) => Some(Timestamp::parse(since).ok_or_else(|| bad("since"))?),
            (None, Some(age)) => Some(clock::now() - age),
            (None, None) if age.is_empty() => None,
            (None, None) => return Err(bad("age")),
        };
        let filter = ParkedFilter {
            app: Some(app),
            channel: channel.map_err(|_| bad("channel"))?,
            provider: text("provider"),
            cause: text("cause"),
            category: text("category"),
            delivery: delivery.map_err(|_| bad("delivery"))?,
            id: None,
            since,
            before: None,
        };
        let rate = rate.map_err(|_| bad("rate"))?.unwrap_or(RATES.1);
        Ok(Fields { filter, age, rate })
    }

    /// Returns the selection as a query, with the exact time instead of the age.
    fn query(&self) -> String {
        let filter = &self.filter;
        let pairs = [
            ("channel", filter.channel.map(|channel| channel.to_string())),
            ("provider", filter.provider.clone()),
            ("cause", filter.cause.clone()),
            ("category", filter.category.clone()),
            ("delivery", filter.delivery.map(|delivery| delivery.to_string())),
            ("since", filter.since.map(|since| since.to_string())),
        ];
        let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
        pairs.map(|(name, value)| format!("{name}={}", encoded(&value))).collect::<Vec<_>>().join("&")
    }
}

/// Describes the messages that a filter selects.
pub(crate) fn described(filter: &ParkedFilter) -> String {
    let what = filter.channel.map_or("parked messages", |channel| text::channel(channel));
    let parts = [
        filter.cause.as_ref().map(|cause| format!(" with cause {cause}")),
        filter.provider.as_ref().map(|provider| format!(" by {provider}")),
        filter.category.as_ref().map(|category| format!(" of category {category}")),
        filter.delivery.map(|delivery| format!(" of delivery {delivery}")),
    ];
    what.to_owned() + &parts.into_iter().flatten().collect::<String>()
}

struct FirstRow {
    person: Option<PersonLink>,
    kind: String,
    cause: String,
    parked_at: Timestamp,
}

#[derive(Template)]
#[template(path = "redrive.html")]
struct RedrivePage {
    visit: Visit,
    fields: Fields,
    preview: RedrivePreview,
    first: Vec<FirstRow>,
    asks_password: bool,
    problem: Option<String>,
}

impl RedrivePage {
    /// Sentence about the people and messages.
    fn effect(&self) -> String {
        let number = |number: u64| text::number(usize::try_from(number).unwrap_or(usize::MAX), false);
        let preview = &self.preview;
        if preview.expected() == 0 {
            return "No message would be redriven.".to_owned();
        }
        let noun = |count: u64, one, many| if count == 1 { one } else { many };
        let kinds =
            preview.messages.iter().map(|(kind, count)| format!("{} {}", number(*count), kind_name(*kind)));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let (people, messages) = (preview.people, preview.expected());
        let text = format!("{} {} would get", number(people), noun(people, "person", "people"));
        let text = if people == 0 { "Planned or sent again:".to_owned() } else { text };
        format!("{text} {} {}: {kinds}.", number(messages), noun(messages, "message", "messages"))
    }

    fn stays(&self) -> Option<String> {
        let stay: u64 = self.preview.stay.values().sum();
        let reasons = self.preview.stay.iter().map(|(skip, count)| format!("{count} {}", skip_words(*skip)));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        let verb = if stay == 1 { "stays" } else { "stay" };
        (stay > 0).then(|| format!("{stay} {verb} parked: {reasons}."))
    }

    fn takes(&self) -> String {
        let seconds = self.preview.expected().div_ceil(u64::from(self.fields.rate.max(1))).max(1);
        let time =
            if seconds < 60 { format!("{seconds} s") } else { text::millis(seconds.saturating_mul(1_000)) };
        format!("At {} a second it takes {time}.", self.fields.rate)
    }

    fn is_large(&self) -> bool {
        self.preview.expected() > LARGE
    }

    fn can_start(&self) -> bool {
        self.preview.expected() > 0 && !self.preview.is_cut
    }
}

fn kind_name(kind: ParkedKind) -> String {
    match kind {
        ParkedKind::Job(channel) => text::channel(channel).to_owned(),
        ParkedKind::Send => "sends planned again".to_owned(),
        ParkedKind::Unknown => "unknown".to_owned(),
    }
}

/// Describes why a message stays parked.
fn skip_words(skip: Skip) -> &'static str {
    match skip {
        Skip::Expired => "expired",
        Skip::Erased => "of erased people",
        Skip::Cancelled => "cancelled",
        Skip::Suppressed => "suppressed",
        Skip::Read => "read in the inbox",
        Skip::DeliveredOtherwise => "delivered to another target",
        Skip::SettledOtherwise => "settled otherwise",
        Skip::ProviderGone => "whose only provider is gone",
        Skip::Unreadable => "not readable",
    }
}

pub(crate) async fn ask(console: &Console, visit: Visit, request: &HttpRequest, query: &Pairs) -> Answer {
    let fields = Fields::read(visit.app()?.id, query)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let preview = redrives::preview(&console.operations, caller, app, &fields.filter, |_| ()).await?;
    let asks_password = asks_password(console, &visit, request).await?;
    show(StatusCode::OK, visit, fields, preview, asks_password, None)
}

fn show(
    status: StatusCode,
    visit: Visit,
    fields: Fields,
    mut preview: RedrivePreview,
    asks_password: bool,
    problem: Option<String>,
) -> Answer {
    let row = |parked: ParkedEntry| FirstRow {
        person: parked.recipient.as_deref().map(|identifier| visit.person(identifier)),
        kind: kind_name(ParkedKind::of(&parked)),
        cause: parked.cause,
        parked_at: parked.parked_at,
    };
    let first = std::mem::take(&mut preview.first).into_iter().map(row).collect();
    page(status, &RedrivePage { visit, fields, preview, first, asks_password, problem })
}

pub(crate) async fn start(change: Change<'_>) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::Redrive, app)?;
    let fields = Fields::read(app, &change.form)?;
    let bad = || Refusal::Invalid("The form is incomplete. Open the preview again.".to_owned());
    let previewed_at = change.form.text("at").and_then(Timestamp::parse).ok_or_else(bad)?;
    let expected: u64 = change.form.text("expected").and_then(|text| text.parse().ok()).ok_or_else(bad)?;
    let typed = change.form.text("typed").map(|text| text.replace([',', '.', ' '], ""));
    let mut refused = None;
    if expected > LARGE
        && let Some(problem) = change.confirm_operator().await?
    {
        refused = Some((status(&problem), problem.to_string()));
    }
    let new = NewRedrive {
        app,
        filter: &fields.filter,
        previewed_at,
        per_second: fields.rate,
        expected,
        typed: typed.and_then(|text| text.parse().ok()),
        is_confirmed: expected > LARGE,
    };
    let operations = &change.console.operations;
    let refused = match refused {
        Some(refused) => refused,
        None => match redrives::start(operations, caller, &new).await {
            Ok(id) => return Ok(see_other(change.visit.path(&format!("/parked/runs/{id}?done=started")))),
            Err(OperationError::Invalid(problems)) => {
                (StatusCode::BAD_REQUEST, domain::problem::joined(&problems))
            }
            Err(error) => return Err(error.into()),
        },
    };
    let preview = redrives::preview(operations, caller, app, &fields.filter, |_| ()).await?;
    let asks_password = change.asks_password().await?;
    let (status, problem) = refused;
    show(status, change.visit, fields, preview, asks_password, Some(problem))
}

/// Returns the selected messages as CSV (RFC 4180), with masked targets.
pub(crate) async fn csv(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let fields = Fields::read(visit.app()?.id, query)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let mut text = "person,what,target,cause,parked,redrive\r\n".to_owned();
    let row = |parked: &ParkedEntry| {
        let person = parked.recipient.as_deref().map(|identifier| visit.person(identifier).shown);
        let cells = [
            person.unwrap_or_default(),
            ParkedKind::of(parked).to_string(),
            parked.target.as_deref().map(masked).unwrap_or_default(),
            parked.cause.clone(),
            parked.parked_at.to_string(),
            parked.skip.map_or("yes", Skip::as_str).to_owned(),
        ];
        let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        text += &cells.join(",");
        text += "\r\n";
    };
    redrives::preview(&console.operations, caller, app, &fields.filter, row).await?;
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_TYPE, "text/csv; charset=utf-8"))
        .insert_header((CACHE_CONTROL, "no-store"));
    response.insert_header((CONTENT_DISPOSITION, "attachment; filename=\"parked.csv\""));
    Ok(response.body(text))
}

/// Quotes a cell. Spreadsheets would read a cell that begins like a formula as one.
fn quoted(cell: &str) -> String {
    let guard = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", cell.replace('"', "\"\""))
}

/// A run in a list.
pub(crate) struct RunRow {
    pub(crate) run: RedriveRun,
    pub(crate) path: String,
    pub(crate) what: String,
}

impl RunRow {
    pub(crate) fn new(visit: &Visit, run: RedriveRun) -> RunRow {
        RunRow { path: visit.path(&format!("/parked/runs/{}", run.id)), what: described(&run.filter), run }
    }

    /// Class of the state in the stylesheet, and its sign.
    pub(crate) fn tone(&self) -> (&'static str, &'static str) {
        match self.run.state {
            RunState::Running => ("calm", "•"),
            RunState::Paused => ("warn", "!"),
            RunState::Stopped => ("off", "–"),
            RunState::Done => ("good", "✓"),
        }
    }

    pub(crate) fn author(&self) -> &str {
        self.run.email.as_deref().unwrap_or(&self.run.created_by)
    }

    /// Messages that were judged, and those that the preview selected.
    fn progress(&self) -> (i64, i64) {
        let judged = self.run.redriven + self.run.kept();
        (judged, self.run.selected.max(judged))
    }

    /// Reason why the run stands still.
    fn reason(&self) -> Option<String> {
        let (pause, detail) = self.run.pause.as_ref()?;
        Some(match pause {
            Pause::Failing => format!(
                "It paused itself: {detail} of the latest 100 redriven deliveries have failed or are parked again. Remove the \
                 cause that their last answers name, then resume."
            ),
            Pause::BreakerOpen => {
                let provider = if detail.is_empty() { "the provider" } else { detail };
                format!(
                    "It paused itself: {provider} keeps failing, and its breaker is open. Resume when it answers again."
                )
            }
        })
    }
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPageTemplate {
    visit: Visit,
    row: RunRow,
}

pub(crate) async fn run(console: &Console, visit: Visit, id: &str) -> Answer {
    let id = run_id(id)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let run = redrives::find(&console.operations, caller, app, id).await?;
    let row = RunRow::new(&visit, run);
    page(StatusCode::OK, &RunPageTemplate { visit, row })
}

/// Pauses, resumes or stops a run.
pub(crate) async fn change_run(change: Change<'_>, id: &str) -> Answer {
    let id = run_id(id)?;
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::Redrive, app)?;
    let to = match change.form.text("to") {
        Some("paused") => RunState::Paused,
        Some("running") => RunState::Running,
        Some("stopped") => RunState::Stopped,
        _ => return Err(Refusal::Invalid("The form names no state of a run.".to_owned())),
    };
    redrives::change(&change.console.operations, caller, app, id, to).await?;
    Ok(see_other(change.visit.path(&format!("/parked/runs/{id}?done={to}"))))
}

fn run_id(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| Refusal::NotFound("This is not the number of a redrive."))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn cells_are_quoted_and_are_no_formulas() {
        assert_eq!(quoted("ada"), "\"ada\"");
        assert_eq!(quoted("say \"hi\", ada"), "\"say \"\"hi\"\", ada\"");
        assert_eq!(quoted("=1+1"), "\"'=1+1\"");
        assert_eq!(quoted("@x"), "\"'@x\"");
    }
}
