//! The settings of an app.

use actix_web::http::StatusCode;
use askama::Template;
use domain::Problem;
use domain::app_setting::{AppSetting, AppSettings, Described};
use operations::apps::settings::{set_seen, version};
use operations::{OperationError, Permission};
use store::control::app::App;

use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::query::Pairs;
use crate::text;

/// Groups of settings: title, a sentence, and the names of the settings.
const GROUPS: [(&str, &str, &[&str]); 5] = [
    (
        "Calls by users",
        "How calls from browsers and phones prove who their user is, and from which pages they may come.",
        &["secure-mode", "require-exp", "token-subject", "address-keys", "cors-origins", "hmac"],
    ),
    (
        "Emails without a template",
        "The look of emails that are sent without a template.",
        &[
            "brand-name",
            "brand-logo",
            "brand-color",
            "brand-address",
            "email-button",
            "email-unsubscribe",
            "email-layout",
        ],
    ),
    (
        "Data",
        "How long sends are kept, and what templates know about a person.",
        &["keep-sends", "template-profile"],
    ),
    (
        "Limits",
        "How much of the installation the app may use. Calls beyond a limit are refused.",
        &[
            "rate-limit",
            "transactional-rate",
            "realtime-connections",
            "max-users",
            "max-devices",
            "max-categories",
            "max-topics",
            "max-subscriptions",
            "max-send-megabytes",
            "max-file-megabytes",
        ],
    ),
    ("Turn the app off", "Its data stays, and what is planned is still delivered.", &["disabled"]),
];

/// Control of a setting.
enum Control {
    Switch,
    Words(Vec<String>),
    /// One line. An empty one stands for a word of the setting, if there is one.
    Line(Option<String>),
}

struct Field {
    name: &'static str,
    label: String,
    hint: String,
    control: Control,
    value: String,
    problem: Option<String>,
}

struct Group {
    title: &'static str,
    sentence: &'static str,
    fields: Vec<Field>,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    visit: Visit,
    version: String,
    groups: Vec<Group>,
    /// True if the app demands signatures, and none of its secrets can verify one.
    needs_secret: bool,
    has_problems: bool,
}

fn control(described: &Described) -> Control {
    let words: Vec<&str> = described.syntax.split('|').collect();
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    match words.as_slice() {
        ["on", "off"] => Control::Switch,
        words if words.iter().all(is_word) => {
            Control::Words(words.iter().map(|word| (*word).to_owned()).collect())
        }
        [_, unset] if is_word(unset) => Control::Line(Some((*unset).to_owned())),
        _ => Control::Line(None),
    }
}

/// Returns the values that apply, in the syntax of the command line.
fn current(app: &App) -> Vec<(&'static str, String)> {
    let effective = AppSettings { guard_addresses: Some(app.guards_addresses()), ..app.settings.clone() };
    effective.to_texts()
}

fn field(described: &Described, value: &str, problems: &[Problem]) -> Field {
    let control = control(described);
    let value = match &control {
        Control::Line(Some(unset)) if unset == value => "",
        _ => value,
    };
    let own = problems.iter().find(|problem| problem.field == described.name);
    Field {
        name: described.name,
        label: text::label(&described.name.replace('-', " ")),
        hint: text::sentence(&described.text.replace('`', "")),
        value: value.to_owned(),
        problem: own.map(|problem| text::sentence(&problem.message)),
        control,
    }
}

fn shown(visit: Visit, status: StatusCode, values: &[(&str, String)], problems: &[Problem]) -> Answer {
    let app = visit.app()?;
    let described = AppSetting::described();
    let value = |name: &str| values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
    let group = |&(title, sentence, names): &(&'static str, &'static str, &[&str])| Group {
        title,
        sentence,
        fields: names
            .iter()
            .filter_map(|name| described.iter().find(|described| described.name == *name))
            .map(|described| field(described, value(described.name), problems))
            .collect(),
    };
    let needs_secret = app.settings.hmac && app.secrets.iter().all(|secret| secret.sealed.is_empty());
    let (version, groups) = (version(app), GROUPS.iter().map(group).collect());
    page(status, &SettingsPage { visit, version, groups, needs_secret, has_problems: !problems.is_empty() })
}

pub(crate) fn show(visit: Visit) -> Answer {
    visit.operator.caller.may(Permission::View, visit.app()?.id)?;
    let values = current(visit.app()?);
    shown(visit, StatusCode::OK, &values, &[])
}

/// Returns the values of the form.
fn typed(form: &Pairs) -> Vec<(&'static str, String)> {
    let value = |described: Described| {
        let given = form.text(described.name).unwrap_or_default();
        let value = match control(&described) {
            Control::Switch if given == "on" => "on",
            Control::Switch => "off",
            Control::Line(Some(unset)) if given.is_empty() => return (described.name, unset),
            _ => given,
        };
        (described.name, value.to_owned())
    };
    AppSetting::described().into_iter().map(value).collect()
}

pub(crate) async fn change(change: Change<'_>) -> Answer {
    let (app, caller) = (change.visit.app()?, &change.visit.operator.caller);
    caller.may(Permission::ManageApps, app.id)?;
    let seen = change.seen()?;
    let (typed, current) = (typed(&change.form), current(app));
    let changed = typed.iter().filter(|value| !current.contains(value));
    let texts: Vec<String> = changed.map(|(name, value)| format!("{name}={value}")).collect();
    let result = match AppSetting::parse_all(&texts) {
        Ok(settings) => set_seen(&change.console.operations, caller, app, &settings, seen).await,
        Err(problems) => Err(OperationError::Invalid(problems)),
    };
    match result {
        Ok(_) => Ok(see_other(change.visit.path("/settings?done=settings-saved"))),
        Err(OperationError::Invalid(_)) if version(app) != seen => {
            Err(Refusal::from(OperationError::Conflict(operations::Conflict::Changed)))
        }
        Err(OperationError::Invalid(problems)) => {
            shown(change.visit, StatusCode::BAD_REQUEST, &typed, &problems)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(.., names)| names.iter().copied()).collect();
        let mut known = AppSetting::NAMES.to_vec();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }
}
