//! Forms with the settings of a provider. They are made from the example of its kind.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use askama::Template;
use domain::{Channel, Problem};
use operations::providers::form::{FURTHER, FormField, Input};
use operations::providers::{self, Draft, Expected, KnownKind};
use operations::{Conflict, OperationError, Permission};
use serde_json::{Value, json};
use store::control::provider::ProviderSummary;

use super::providers::path;
use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::text;

/// Difference between the priorities of two providers.
const STEP: i32 = 10;
const NO_KIND: Refusal = Refusal::NotFound("This release knows no such kind of provider.");

#[derive(Template)]
#[template(path = "provider_kinds.html")]
struct KindsPage {
    visit: Visit,
    kinds: &'static [KnownKind],
}

struct FieldView {
    field: FormField,
    label: String,
    value: String,
    problem: Option<String>,
    /// True if the provider has this secret.
    is_stored: bool,
}

impl FieldView {
    /// Comment of the example, without the word that says in which part of the form the field is.
    fn hint(&self) -> &str {
        let note = self.field.note.as_str();
        note.strip_prefix("optional").map_or(note, |rest| rest.trim_start_matches([':', ';', ' ']))
    }
}

#[derive(Template)]
#[template(path = "provider_form.html")]
struct FormPage {
    visit: Visit,
    kind: &'static KnownKind,
    /// The stored provider; None for a new one.
    edited: Option<Edited>,
    identifier: String,
    most_per_second: String,
    fields: Vec<FieldView>,
    further: String,
    /// Problems by field. Those of fields without a place in the form come first.
    problems: Vec<Problem>,
}

struct Edited {
    provider: ProviderSummary,
    secrets: Vec<&'static str>,
}

/// Values that an operator typed, or the stored ones.
#[derive(Default)]
struct Typed {
    identifier: String,
    most_per_second: String,
    settings: BTreeMap<String, String>,
}

fn find(kinds: &'static [KnownKind], channel: &str, name: &str) -> Result<&'static KnownKind, Refusal> {
    kinds.iter().find(|kind| kind.channel.as_str() == channel && kind.name == name).ok_or(NO_KIND)
}

fn kind_of(console: &Console, provider: &ProviderSummary) -> Result<&'static KnownKind, Refusal> {
    find(console.kinds, provider.channel.as_str(), &provider.kind)
}

pub(crate) fn new(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    visit.operator.caller.may(Permission::ManageProviders, visit.app()?.id)?;
    let (Some(channel), Some(name)) = (query.text("channel"), query.text("kind")) else {
        return page(StatusCode::OK, &KindsPage { visit, kinds: console.kinds });
    };
    let kind = find(console.kinds, channel, name)?;
    let settings =
        kind.fields().into_iter().filter_map(|field| first_value(&field).map(|value| (field.name, value)));
    let typed = Typed { identifier: kind.name.to_owned(), settings: settings.collect(), ..Typed::default() };
    page(StatusCode::OK, &FormPage::new(visit, kind, None, typed, &[]))
}

/// Returns the value with which a field of a new provider begins.
fn first_value(field: &FormField) -> Option<String> {
    match field.input {
        Input::Switch => Some(field.sample.clone()),
        Input::Choice(_) if field.is_required => Some(field.sample.clone()),
        _ => None,
    }
}

pub(crate) async fn edit(console: &Console, visit: Visit, identifier: &str) -> Answer {
    let (edited, kind) = stored(console, &visit, identifier).await?;
    let typed = Typed {
        identifier: identifier.to_owned(),
        most_per_second: edited.provider.max_per_second.map(|most| most.to_string()).unwrap_or_default(),
        settings: kind.shown(&edited.provider.settings),
    };
    page(StatusCode::OK, &FormPage::new(visit, kind, Some(edited), typed, &[]))
}

async fn stored(
    console: &Console,
    visit: &Visit,
    identifier: &str,
) -> Result<(Edited, &'static KnownKind), Refusal> {
    let (app, caller, operations) = (visit.app()?.id, &visit.operator.caller, &console.operations);
    caller.may(Permission::ManageProviders, app)?;
    let provider = providers::find(operations, caller, app, identifier).await?.provider;
    let kind = kind_of(console, &provider)?;
    let secrets = providers::secret_names(operations, caller, app, kind, identifier).await?;
    Ok((Edited { provider, secrets }, kind))
}

pub(crate) async fn create(change: Change<'_>) -> Answer {
    let console = change.console;
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::ManageProviders, app)?;
    let text = |name: &str| change.form.text(name).unwrap_or_default();
    let kind = find(console.kinds, text("channel"), text("kind")).map_err(|_| {
        Refusal::Invalid("The form names no kind of provider that this release knows.".to_owned())
    })?;
    let listed = providers::list(&console.operations, caller, app).await?;
    let last = listed
        .iter()
        .filter(|provider| provider.channel == kind.channel)
        .map(|provider| provider.priority)
        .max();
    let priority = last.map_or(STEP, |last| last.saturating_add(STEP));
    let identifier = text("identifier").to_owned();
    save(change, kind, None, (identifier, priority, true)).await
}

pub(crate) async fn update(change: Change<'_>, identifier: &str) -> Answer {
    let (edited, kind) = stored(change.console, &change.visit, identifier).await?;
    let kept = (identifier.to_owned(), edited.provider.priority, edited.provider.enabled);
    save(change, kind, Some(edited), kept).await
}

/// Checks and stores the document of a form. If it has problems, the form is shown again, with all that was typed except secrets.
async fn save(
    change: Change<'_>,
    kind: &'static KnownKind,
    edited: Option<Edited>,
    (identifier, priority, enabled): (String, i32, bool),
) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    let expected = match (&edited, change.form.text("version").map(str::parse)) {
        (None, _) => Expected::New,
        (Some(_), Some(Ok(version))) => Expected::Version(version),
        (Some(_), _) => {
            return Err(Refusal::Invalid("The form names no version of the provider.".to_owned()));
        }
    };
    let result = match document(&change.form, kind, &identifier, priority, enabled) {
        Ok(document) => match Draft::read(change.console.kinds, document) {
            Ok(draft) => {
                providers::set_version(&change.console.operations, caller, app, &draft, expected).await
            }
            Err(problems) => Err(OperationError::Invalid(problems)),
        },
        Err(problems) => Err(OperationError::Invalid(problems)),
    };
    let (status, problems) = match result {
        Ok(_) => return Ok(see_other(path(&change.visit, &identifier, "?done=provider-saved"))),
        Err(OperationError::Invalid(problems)) => (StatusCode::BAD_REQUEST, problems),
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            let message = "the app has a provider with this identifier already";
            (StatusCode::CONFLICT, vec![Problem::new("identifier", "taken", message)])
        }
        Err(error) => return Err(error.into()),
    };
    let typed = Typed {
        identifier,
        most_per_second: change.form.text("maxPerSecond").unwrap_or_default().to_owned(),
        settings: typed(&change.form, kind),
    };
    page(status, &FormPage::new(change.visit, kind, edited, typed, &problems))
}

/// Returns what the fields of the form contain, without secrets.
fn typed(form: &Pairs, kind: &KnownKind) -> BTreeMap<String, String> {
    let fields = kind.fields().into_iter().filter(|field| !field.is_secret).map(|field| field.name);
    let names = fields.chain([FURTHER.to_owned()]);
    names.filter_map(|name| Some((name.clone(), form.raw(&member(&name))?.to_owned()))).collect()
}

/// Returns the name of a setting in the form.
fn member(name: &str) -> String {
    format!("settings.{name}")
}

fn document(
    form: &Pairs,
    kind: &KnownKind,
    identifier: &str,
    priority: i32,
    enabled: bool,
) -> Result<Value, Vec<Problem>> {
    let is_removed = |name: &&&str| form.text(&format!("remove.{name}")).is_some();
    let removed: Vec<&str> = kind.secrets.iter().filter(is_removed).copied().collect();
    let settings = kind.settings(|name| form.raw(&member(name)).map(str::to_owned), &removed)?;
    let mut document = json!({
        "identifier": identifier, "channel": kind.channel, "kind": kind.name, "priority": priority, "enabled": enabled,
        "settings": settings,
    });
    if let Some(most) = form.text("maxPerSecond") {
        document["maxPerSecond"] = most.parse::<i64>().map_or_else(|_| json!(most), |most| json!(most));
    }
    Ok(document)
}

impl FormPage {
    fn new(
        visit: Visit,
        kind: &'static KnownKind,
        edited: Option<Edited>,
        mut typed: Typed,
        problems: &[Problem],
    ) -> FormPage {
        let secrets = edited.as_ref().map(|edited| edited.secrets.clone()).unwrap_or_default();
        let mut other = problems.to_vec();
        let mut fields: Vec<FieldView> = Vec::new();
        for field in kind.fields() {
            let value = typed.settings.remove(&field.name).unwrap_or_default();
            let is_of = |problem: &Problem| is_about(&problem.field, &member(&field.name));
            let own = problems.iter().find(|problem| is_of(problem)).map(|problem| problem.message.clone());
            other.retain(|problem| !is_of(problem));
            fields.push(FieldView {
                label: text::label(&field.name),
                is_stored: secrets.contains(&field.name.as_str()),
                problem: own,
                value,
                field,
            });
        }
        let further = typed.settings.remove(FURTHER).unwrap_or_default();
        let Typed { identifier, most_per_second, .. } = typed;
        FormPage { visit, kind, edited, identifier, most_per_second, fields, further, problems: other }
    }

    fn own_path(&self) -> String {
        match &self.edited {
            Some(edited) => path(&self.visit, &edited.provider.identifier, "/edit"),
            None => self.visit.path("/providers/new"),
        }
    }

    /// Path of the stored provider, or of the list.
    fn back(&self) -> String {
        match &self.edited {
            Some(edited) => path(&self.visit, &edited.provider.identifier, ""),
            None => self.visit.path("/providers"),
        }
    }

    /// Returns true if a field has a problem.
    fn has_marks(&self) -> bool {
        self.fields.iter().any(|view| view.problem.is_some())
    }

    /// Fields that most providers need, or the others.
    fn part(&self, is_optional: bool) -> impl Iterator<Item = &FieldView> {
        self.fields.iter().filter(move |view| view.field.is_optional == is_optional)
    }

    /// Returns true if an optional field has a value, a secret or a problem.
    fn shows_optional(&self) -> bool {
        let is_filled = |view: &FieldView| {
            view.is_stored
                || view.problem.is_some()
                || !view.value.is_empty() && view.field.input != Input::Switch
        };
        !self.further.is_empty() || !self.most_per_second.is_empty() || self.part(true).any(is_filled)
    }

    fn channel(&self) -> Channel {
        self.kind.channel
    }
}

/// Returns true if the path of a problem is a field or below it.
fn is_about(problem: &str, field: &str) -> bool {
    problem.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}
