//! The audit log: of one app, or of the whole installation.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use askama::Template;
use domain::{Action, AppId};
use operations::audit::{self, NamedRow};
use operations::{OperationError, Permission};
use serde_json::Value;
use service_kit::clock;

use super::operators::scope;
use super::sends::PAGE;
use super::shell::Visit;
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::query::{Pairs, Search};
use crate::route::encoded;
use crate::text;

const QUALIFIERS: &[&str] = &["action", "actor", "app", "since"];
const QUALIFIERS_OF_APP: &[&str] = &["action", "actor", "since"];
/// Maximum number of characters of a value.
const LONGEST: usize = 120;

struct ShownRow {
    named: NamedRow,
    /// Verb with its object.
    what: String,
    /// Subject, unless `what` says it all.
    subject: Option<String>,
    /// Members that changed, such as `role: viewer → support`.
    changes: Vec<String>,
    /// App of the row in the log of all apps: name, and the path of its log.
    app: Option<(String, String)>,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    visit: Visit,
    /// Path of the page without its filter.
    path: String,
    search: Search,
    rows: Part<Vec<ShownRow>>,
    next: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let of_app = visit.app.as_ref().map(|app| app.id);
    let caller = &visit.operator.caller;
    caller.may(Permission::ReadAuditLog, of_app)?;
    let mut search = Search::read(query, if of_app.is_some() { QUALIFIERS_OF_APP } else { QUALIFIERS });
    let app = of_app.or_else(|| named_app(&visit, &mut search));
    let action = action(&mut search);
    let since = match search.value("since").map(|text| (text.to_owned(), text::duration(text))) {
        Some((_, Some(age))) => Some(clock::now() - age),
        Some((text, None)) => {
            search.problems.push(format!("since:{text} is not a time. Use 30m, 2h or 7d."));
            None
        }
        None => None,
    };
    let actor = search.value("actor").map(str::to_owned);
    let words: Vec<String> = search.words.iter().map(|word| word.to_lowercase()).collect();
    let is_wanted = |named: &NamedRow| {
        let row = &named.row;
        let text = format!("{} {} {}", row.action, named.subject, named.actor).to_lowercase();
        action.as_deref().is_none_or(|wanted| row.action == wanted)
            && actor.as_deref().is_none_or(|wanted| named.actor == wanted || row.actor == wanted)
            && words.iter().all(|word| text.contains(word))
    };
    let before = query.text("before").and_then(|text| text.parse().ok());
    let read: Result<_, OperationError> =
        audit::page(&console.operations, caller, app, (before, since), PAGE, is_wanted).await;
    let read = part(read)?;
    let path = match of_app {
        Some(_) => visit.path("/audit"),
        None => format!("{}/audit", visit.base),
    };
    let next = read.as_ref().ok().and_then(|page| page.next);
    let next = next.map(|next| format!("{path}?q={}&before={next}", encoded(&search.written())));
    let rows = read.map(|page| page.rows.into_iter().map(|named| shown(&visit, of_app, named)).collect());
    page(StatusCode::OK, &AuditPage { visit, path, search, rows, next })
}

/// Returns the app that the search names, and reports an unknown one.
fn named_app(visit: &Visit, search: &mut Search) -> Option<AppId> {
    let name = search.value("app")?.to_owned();
    let is_it = |app: &&store::control::app::App| app.name == name || app.id.to_string() == name;
    let found = visit.apps.iter().find(is_it).map(|app| app.id);
    if found.is_none() {
        search.problems.push(format!("app:{name} does not exist; rows of all apps are shown."));
    }
    found
}

/// Returns the action that the search names, and reports an unknown one with the nearest.
fn action(search: &mut Search) -> Option<String> {
    let wanted = search.value("action")?.to_owned();
    if wanted.parse::<Action>().is_err() {
        let likeness = |known: &Action| strsim::jaro_winkler(known.as_str(), &wanted);
        let nearest = Action::ALL.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let nearest = nearest.map_or("", |action| action.as_str());
        search.problems.push(format!("action:{wanted} is not known. Did you mean action:{nearest} ?"));
    }
    Some(wanted)
}

fn shown(visit: &Visit, of_app: Option<AppId>, named: NamedRow) -> ShownRow {
    let row = &named.row;
    let app = row.app.filter(|_| of_app.is_none()).map(|app| {
        let name = scope(visit, Some(app));
        let path = format!("{}/audit?app={app}", visit.base);
        (name, path)
    });
    let (what, has_subject) = match row.action.parse::<Action>() {
        Ok(action) => words(action),
        Err(_) => (row.action.as_str(), true),
    };
    let subject = (has_subject && !named.subject.is_empty()).then(|| named.subject.clone());
    ShownRow {
        what: what.to_owned(),
        subject,
        changes: changes(row.before.as_ref(), row.after.as_ref()),
        app,
        named,
    }
}

/// Describes an action, and returns true if its subject follows.
const fn words(action: Action) -> (&'static str, bool) {
    match action {
        Action::AppCreate => ("created the app", true),
        Action::AppSet => ("changed a setting of the app", true),
        Action::AppRotateSecret => ("rotated the API secret of the app", true),
        Action::LinkKeyRotate => ("rotated the key of links", false),
        Action::SigningKeyCreate => ("created the signing key", true),
        Action::SigningKeyRevoke => ("revoked the signing key", true),
        Action::ProviderSet => ("set the provider", true),
        Action::ProviderEnable => ("enabled the provider", true),
        Action::ProviderDisable => ("disabled the provider", true),
        Action::ProviderRemove => ("removed the provider", true),
        Action::TemplatePut => ("stored a version of the template", true),
        Action::TemplateTestSend => ("sent a test of the template", true),
        Action::WebhookSet => ("set the webhook", true),
        Action::WebhookRemove => ("removed the webhook", true),
        Action::WebhookSecretRotate => ("rotated the secret of the webhook", true),
        Action::WebhookRedeliver => ("redelivered webhooks", true),
        Action::SuppressionLift => ("lifted a suppression", true),
        Action::ParkedRedrive => ("redrove parked messages", true),
        Action::RedriveStart => ("started the redrive", true),
        Action::RedrivePause => ("paused the redrive", true),
        Action::RedriveResume => ("resumed the redrive", true),
        Action::RedriveStop => ("stopped the redrive", true),
        Action::WaitingRelease => ("released waiting deliveries", true),
        Action::RequestCancel => ("cancelled the send", true),
        Action::UserErase => ("erased", true),
        Action::TargetReveal => ("saw in full a target of", true),
        Action::OperatorCreate => ("created the operator", true),
        Action::OperatorLink => ("made a link for the operator", true),
        Action::OperatorDisable => ("disabled the operator", true),
        Action::OperatorEnable => ("enabled the operator", true),
        Action::OperatorGrant => ("changed the roles of the operator", true),
        Action::OperatorRevoke => ("removed a role of the operator", true),
        Action::OperatorPassword => ("changed the own password", false),
        Action::OperatorIdentity => ("linked an identity to the operator", true),
        Action::OperatorUnlink => ("unlinked the identities of the operator", true),
        Action::CategorySet => ("set the category", true),
        Action::CategoryDelete => ("deleted the category", true),
        Action::TopicSet => ("set the topic", true),
        Action::TopicDelete => ("deleted the topic", true),
        Action::TokenCreate => ("created the token", true),
        Action::TokenRevoke => ("revoked the token", true),
    }
}

/// Writes the members that differ, each with its value before and after.
fn changes(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (before, after) = (members(before), members(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        // A new object has members that are not set.
        .filter(|name| before.contains_key(*name) || after.get(*name) != Some(&Value::Null))
        .map(|name| match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) => format!("{name}: {} → {}", plain(old), plain(new)),
            (Some(old), None) => format!("{name}: {} → –", plain(old)),
            (None, new) => format!("{name}: {}", new.map(plain).unwrap_or_default()),
        })
        .collect()
}

fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_members_are_shown_with_both_values_and_cut() {
        let (before, after) = (json!({"a": 1, "b": "x", "c": null}), json!({"a": 1, "b": "y", "d": true}));
        assert_eq!(changes(Some(&before), Some(&after)), ["b: x → y", "c: null → –", "d: true"]);
        assert_eq!(changes(None, None), Vec::<String>::new());
        assert_eq!(
            changes(None, Some(&json!({"role": "x".repeat(500)})))[0].chars().count(),
            6 + LONGEST + 1
        );
    }
}
