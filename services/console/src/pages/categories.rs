//! Categories of an app.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::fields::check_identifier;
use domain::{CategoryId, Problem, Timestamp};
use operations::{Conflict, Object, OperationError, Permission, categories};
use store::directory::category::{Category, CategoryValues, NewCategory};

use super::confirm::{Question, ask as ask_question};
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::text::{self, Plain};

/// Rows of a page of the list.
const PAGE: usize = 100;
/// Largest position.
const MOST_ORDER: i32 = 10_000;

#[derive(Template)]
#[template(path = "categories.html")]
struct CategoriesPage {
    visit: Visit,
    rows: Part<Vec<Category>>,
    next: Option<String>,
}

/// Values that an operator typed, or the stored ones.
#[derive(Default)]
struct Typed {
    identifier: String,
    name: String,
    order: String,
    critical: bool,
    hide_in_in_app: bool,
    hide_in_preference_manager: bool,
}

#[derive(Template)]
#[template(path = "category_form.html")]
struct FormPage {
    visit: Visit,
    /// The stored category; None for a new one.
    edited: Option<Category>,
    typed: Typed,
    problem: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let after = query.text("after").and_then(|id| id.parse().ok()).map(CategoryId);
    let limit = i64::try_from(PAGE + 1).unwrap_or(i64::MAX);
    let mut rows = part(categories::list(&console.operations, caller, app, after, limit).await)?;
    let next = rows.as_mut().ok().and_then(|rows| {
        let has_more = rows.len() > PAGE;
        rows.truncate(PAGE);
        rows.last().filter(|_| has_more).map(|last| visit.path(&format!("/categories?after={}", last.id)))
    });
    page(StatusCode::OK, &CategoriesPage { visit, rows, next })
}

fn path(visit: &Visit, id: impl Plain<CategoryId>, below: &str) -> String {
    visit.path(&format!("/category/{}{below}", id.plain()))
}

async fn found(console: &Console, visit: &Visit, id: &str) -> Result<Category, Refusal> {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::EditCategories, app)?;
    let id = id.parse().map_err(|_| OperationError::NotFound(Object::Category))?;
    Ok(categories::find(&console.operations, caller, app, CategoryId(id)).await?)
}

pub(crate) fn new(visit: Visit) -> Answer {
    visit.operator.caller.may(Permission::EditCategories, visit.app()?.id)?;
    let typed = Typed { order: "0".to_owned(), ..Typed::default() };
    page(StatusCode::OK, &FormPage { visit, edited: None, typed, problem: None })
}

pub(crate) async fn edit(console: &Console, visit: Visit, id: &str) -> Answer {
    let category = found(console, &visit, id).await?;
    let typed = Typed {
        identifier: category.identifier.clone(),
        name: category.name.clone(),
        order: category.order.to_string(),
        critical: category.critical,
        hide_in_in_app: category.hide_in_in_app,
        hide_in_preference_manager: category.hide_in_preference_manager,
    };
    page(StatusCode::OK, &FormPage { visit, edited: Some(category), typed, problem: None })
}

fn typed(form: &Pairs) -> Typed {
    let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
    let flag = |name: &str| form.text(name).is_some();
    Typed {
        identifier: text("identifier"),
        name: text("name"),
        order: text("order"),
        critical: flag("critical"),
        hide_in_in_app: flag("hideInInApp"),
        hide_in_preference_manager: flag("hideInPreferenceManager"),
    }
}

/// Checks the fields, and returns the name and the position.
fn checked(typed: &Typed, is_new: bool) -> Result<(String, i32), Vec<Problem>> {
    let mut problems = Vec::new();
    if is_new {
        check_identifier("identifier", typed.identifier.clone(), &mut problems);
    }
    let name = if typed.name.is_empty() && is_new { &typed.identifier } else { &typed.name };
    let name = check_identifier("name", name.clone(), &mut problems);
    let order = typed.order.parse().ok().filter(|order| (0..=MOST_ORDER).contains(order));
    if order.is_none() {
        let message = format!("the position must be a whole number from 0 to {MOST_ORDER}");
        problems.push(Problem::new("order", "out_of_range", message));
    }
    name.zip(order).filter(|_| problems.is_empty()).ok_or(problems)
}

pub(crate) async fn create(change: Change<'_>) -> Answer {
    change.visit.operator.caller.may(Permission::EditCategories, change.visit.app()?.id)?;
    save(change, None).await
}

pub(crate) async fn update(change: Change<'_>, id: &str) -> Answer {
    let category = found(change.console, &change.visit, id).await?;
    save(change, Some(category)).await
}

async fn save(change: Change<'_>, edited: Option<Category>) -> Answer {
    let typed = typed(&change.form);
    let result = match checked(&typed, edited.is_none()) {
        Ok((name, order)) => store(&change, edited.as_ref(), &typed, &name, order).await,
        Err(problems) => Err(OperationError::Invalid(problems).into()),
    };
    let (status, problem) = match result {
        Ok(()) => return Ok(see_other(change.visit.path("/categories?done=category-saved"))),
        Err(StoreError::Taken) => {
            (StatusCode::CONFLICT, "The app has a category with this identifier already.".to_owned())
        }
        Err(StoreError::Invalid(problems)) => {
            (StatusCode::BAD_REQUEST, text::sentence(&domain::problem::joined(&problems)))
        }
        Err(StoreError::Refused(refusal)) => return Err(refusal),
    };
    page(status, &FormPage { visit: change.visit, edited, typed, problem: Some(problem) })
}

/// Reason why the values of a form are not stored.
enum StoreError {
    Taken,
    Invalid(Vec<Problem>),
    Refused(Refusal),
}

impl From<OperationError> for StoreError {
    fn from(error: OperationError) -> StoreError {
        match error {
            OperationError::Conflict(Conflict::CategoryExists) => StoreError::Taken,
            OperationError::Invalid(problems) => StoreError::Invalid(problems),
            error => StoreError::Refused(error.into()),
        }
    }
}

async fn store(
    change: &Change<'_>,
    edited: Option<&Category>,
    typed: &Typed,
    name: &str,
    order: i32,
) -> Result<(), StoreError> {
    let (operations, caller) = (&change.console.operations, &change.visit.operator.caller);
    let app = change.visit.app().map_err(StoreError::Refused)?.id;
    let Typed { identifier, critical, hide_in_in_app, hide_in_preference_manager, .. } = typed;
    let (critical, hide_in_in_app) = (*critical, *hide_in_in_app);
    let hide_in_preference_manager = *hide_in_preference_manager;
    let Some(edited) = edited else {
        let new =
            NewCategory { identifier, name, critical, hide_in_in_app, hide_in_preference_manager, order };
        categories::create(operations, caller, app, new).await?;
        return Ok(());
    };
    let values = CategoryValues {
        name: Some(name),
        critical: Some(critical),
        hide_in_in_app: Some(hide_in_in_app),
        hide_in_preference_manager: Some(hide_in_preference_manager),
        order: Some(order),
    };
    let seen = seen_time(change).map_err(StoreError::Refused)?;
    categories::change(operations, caller, app, (edited.id, seen), values).await?;
    Ok(())
}

/// Returns the time of the state that the form was made for.
pub(super) fn seen_time(change: &Change<'_>) -> Result<Timestamp, Refusal> {
    let millis = change.seen()?.parse();
    let unknown = |_| Refusal::Invalid("The form names no state that exists.".to_owned());
    millis.map(Timestamp::from_millis).map_err(unknown)
}

fn question(visit: &Visit, category: &Category) -> Question {
    Question {
        title: format!("Delete the category {}?", category.identifier),
        effect: "What people chose for it is deleted: people who turned off its emails get them again. A send that names the category creates it again, with its identifier as the name. Items in inboxes stay, without a category.".to_owned(),
        action: path(visit, category.id, "/delete"),
        back: (path(visit, category.id, ""), "The category"),
        button: "Delete the category",
        is_danger: true,
        choice: None,
        seen: category.updated_at.millis().to_string(),
        is_step_up: false,
    }
}

pub(crate) async fn ask_delete(console: &Console, visit: Visit, request: &HttpRequest, id: &str) -> Answer {
    let category = found(console, &visit, id).await?;
    let question = question(&visit, &category);
    ask_question(console, visit, request, &question).await
}

pub(crate) async fn delete(change: Change<'_>, id: &str) -> Answer {
    let category = found(change.console, &change.visit, id).await?;
    if seen_time(&change)? != category.updated_at {
        return Err(OperationError::Conflict(Conflict::Changed).into());
    }
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    categories::delete(&change.console.operations, caller, app, category.id).await?;
    Ok(see_other(change.visit.path("/categories?done=category-deleted")))
}
