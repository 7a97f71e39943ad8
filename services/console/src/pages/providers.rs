//! The providers of an app, and one provider with its state and what it answered.

use actix_web::http::StatusCode;
use askama::Template;
use domain::explain::meaning::{Names, meaning};
use domain::{Channel, Reason, SendId};
use operations::providers::{self, AnswerGroup, Change as Changed, ProviderTest, TEST_LIMIT};
use operations::{Permission, requests};
use serde_json::Value;
use store::control::provider::ProviderSummary;
use store::deliveries::waiting::WaitingDeliveries;

use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::route::segment;
use crate::text;

/// Calls to a provider that workers have paused.
pub(crate) struct Paused {
    /// Code of the answer that opened the breaker.
    code: String,
    deliveries: i64,
}

struct ProviderRow {
    provider: ProviderSummary,
    path: String,
    kind: String,
    paused: Option<Paused>,
    /// The provider that is tried directly before, and the one behind.
    before: Option<String>,
    behind: Option<String>,
}

struct ChannelProviders {
    channel: Channel,
    rows: Vec<ProviderRow>,
}

#[derive(Template)]
#[template(path = "providers.html")]
struct ProvidersPage {
    visit: Visit,
    read: Part<Vec<ChannelProviders>>,
}

pub(crate) fn path(visit: &Visit, identifier: &str, below: &str) -> String {
    visit.path(&format!("/provider/{}{below}", segment(identifier)))
}

pub(crate) async fn list(console: &Console, visit: Visit) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let listed = providers::list(&console.operations, caller, app).await;
    let waiting = requests::waiting(&console.operations, caller, Some(app)).await;
    let read = match (part(listed)?, part(waiting)?) {
        (Ok(listed), Ok(waiting)) => Ok(by_channel(&visit, &listed, &waiting)),
        (Err(cause), _) | (_, Err(cause)) => Err(cause),
    };
    page(StatusCode::OK, &ProvidersPage { visit, read })
}

fn by_channel(
    visit: &Visit,
    listed: &[ProviderSummary],
    waiting: &[WaitingDeliveries],
) -> Vec<ChannelProviders> {
    let of_channel = listed.chunk_by(|one, two| one.channel == two.channel);
    let rows = |group: &[ProviderSummary]| {
        let names: Vec<&str> = group.iter().map(|provider| provider.identifier.as_str()).collect();
        let name = |place: Option<usize>| Some((*names.get(place?)?).to_owned());
        let row = |(place, provider): (usize, &ProviderSummary)| ProviderRow {
            path: path(visit, &provider.identifier, ""),
            kind: text::kind(&provider.kind),
            paused: paused(provider, waiting),
            before: name(place.checked_sub(1)),
            behind: name(place.checked_add(1)),
            provider: provider.clone(),
        };
        group.iter().enumerate().map(row).collect()
    };
    let channel = |group: &[ProviderSummary]| {
        Some(ChannelProviders { channel: group.first()?.channel, rows: rows(group) })
    };
    of_channel.filter_map(channel).collect()
}

fn paused(provider: &ProviderSummary, waiting: &[WaitingDeliveries]) -> Option<Paused> {
    let mut groups = waiting.iter().filter(|group| {
        group.channel == provider.channel
            && group.reason == Reason::BreakerOpen
            && group.provider.as_deref() == Some(provider.identifier.as_str())
    });
    let first = groups.next()?;
    let deliveries = groups.map(|group| group.deliveries).sum::<i64>() + first.deliveries;
    Some(Paused { code: first.code.clone().unwrap_or_default(), deliveries })
}

struct AnswerRow {
    group: AnswerGroup,
    /// Meaning of the status, and what to do.
    sentence: String,
    fix: Option<String>,
    path: String,
}

struct Setting {
    name: String,
    value: String,
}

#[derive(Template)]
#[template(path = "provider.html")]
struct ProviderPage {
    visit: Visit,
    provider: ProviderSummary,
    kind: String,
    path: String,
    settings: Vec<Setting>,
    unmatched: Vec<String>,
    paused: Part<Option<Paused>>,
    answers: Part<Vec<AnswerRow>>,
    changes: Part<Vec<Changed>>,
    test: Option<ProviderTest>,
}

pub(crate) async fn show(console: &Console, visit: Visit, identifier: &str) -> Answer {
    shown(console, visit, identifier, None).await
}

/// Lets a worker test the provider, and shows the result on the provider's page.
pub(crate) async fn test(change: Change<'_>, identifier: &str) -> Answer {
    let Change { console, visit, .. } = change;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let test = console.provider_tests.test(caller, app, identifier, TEST_LIMIT).await?;
    shown(console, visit, identifier, Some(test)).await
}

async fn shown(console: &Console, visit: Visit, identifier: &str, test: Option<ProviderTest>) -> Answer {
    let (app, caller, operations) = (visit.app()?.id, &visit.operator.caller, &console.operations);
    let found = providers::find(operations, caller, app, identifier).await?;
    let provider = found.provider;
    let waiting = part(requests::waiting(operations, caller, Some(app)).await)?;
    let answers = part(providers::answers(operations, caller, app, identifier).await)?;
    let answers =
        answers.map(|groups| groups.into_iter().map(|group| row(&visit, &provider, group)).collect());
    let changes = part(providers::history(operations, caller, app, identifier).await)?;
    let mut settings = Vec::new();
    flatten("", &provider.settings, &mut settings);
    let template = ProviderPage {
        kind: text::kind(&provider.kind),
        path: path(&visit, identifier, ""),
        paused: waiting.map(|waiting| paused(&provider, &waiting)),
        unmatched: found.unmatched_receipts,
        settings,
        answers,
        changes,
        test,
        provider,
        visit,
    };
    page(StatusCode::OK, &template)
}

fn row(visit: &Visit, provider: &ProviderSummary, group: AnswerGroup) -> AnswerRow {
    let names = Names { channel: Some(provider.channel), provider: Some(&provider.identifier), ..Names::ANY };
    let found = meaning(group.status, group.reason);
    AnswerRow {
        sentence: names.fill(found.sentence),
        fix: found.fix.map(|fix| names.fill(fix.text)),
        path: explained(visit, &group.send, group.recipient.as_deref()),
        group,
    }
}

fn explained(visit: &Visit, send: &SendId, recipient: Option<&str>) -> String {
    visit.explain_path_of(send, recipient)
}

/// Lists the members of settings with dotted names.
fn flatten(name: &str, value: &Value, settings: &mut Vec<Setting>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let path = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                flatten(&path, value, settings);
            }
        }
        Value::String(text) => settings.push(Setting { name: name.to_owned(), value: text.clone() }),
        other => settings.push(Setting { name: name.to_owned(), value: other.to_string() }),
    }
}

impl ProviderPage {
    /// Class in the stylesheet, sign and sentence of the state.
    fn state(&self) -> (&'static str, &'static str, String) {
        match (&self.paused, self.provider.enabled) {
            (_, false) => ("calm", "○", "Disabled. Workers do not call it.".to_owned()),
            (Ok(Some(paused)), true) => {
                let noun = if paused.deliveries == 1 { "delivery waits" } else { "deliveries wait" };
                let code =
                    if paused.code.is_empty() { String::new() } else { format!(" after {}", paused.code) };
                let text = format!("Calls are paused{code}. {} {noun} for it.", paused.deliveries);
                ("bad", "▲", text)
            }
            (_, true) => ("good", "●", "Enabled.".to_owned()),
        }
    }
}

/// Moves a provider by one place.
pub(crate) async fn reorder(change: Change<'_>, identifier: &str) -> Answer {
    const MISSING: Refusal = Refusal::NotFound("The form does not name the other provider.");
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::ManageProviders, app)?;
    let (first, second) = match (change.form.raw("before"), change.form.raw("behind")) {
        (Some(before), None) => (identifier, before),
        (None, Some(behind)) => (behind, identifier),
        _ => return Err(Refusal::Invalid("The form does not name the other provider.".to_owned())),
    };
    if first.is_empty() || second.is_empty() {
        return Err(MISSING);
    }
    providers::move_before(&change.console.operations, caller, app, first, second).await?;
    Ok(see_other(change.visit.path("/providers?done=provider-moved")))
}
