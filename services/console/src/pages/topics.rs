//! Topics of an app.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::fields::check_identifier;
use domain::topic::check_topic_identifier;
use domain::{Problem, TopicId};
use operations::overview::Count;
use operations::{Conflict, Object, OperationError, Permission, topics};
use store::directory::topic::Topic;

use super::categories::seen_time;
use super::confirm::{Question, ask as ask_question};
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::text::{self, Plain};

/// Rows of a page of the list.
const PAGE: usize = 50;

struct TopicRow {
    topic: Topic,
    subscribers: Count,
}

#[derive(Template)]
#[template(path = "topics.html")]
struct TopicsPage {
    visit: Visit,
    rows: Part<Vec<TopicRow>>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "topic_form.html")]
struct FormPage {
    visit: Visit,
    /// The stored topic; None for a new one.
    edited: Option<Topic>,
    identifier: String,
    name: String,
    open: bool,
    problem: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let after = query.text("after").and_then(|id| id.parse().ok()).map(TopicId);
    let (rows, next) = match part(read(console, &visit, after).await)? {
        Ok((rows, next)) => (Ok(rows), next.map(|id| visit.path(&format!("/topics?after={id}")))),
        Err(cause) => (Err(cause), None),
    };
    page(StatusCode::OK, &TopicsPage { visit, rows, next })
}

/// Returns the topics of a page, and the last one if there are more.
async fn read(
    console: &Console,
    visit: &Visit,
    after: Option<TopicId>,
) -> Result<(Vec<TopicRow>, Option<TopicId>), OperationError> {
    let missing = |_| OperationError::NotFound(Object::App);
    let (app, caller) = (visit.app().map_err(missing)?.id, &visit.operator.caller);
    let limit = i64::try_from(PAGE + 1).unwrap_or(i64::MAX);
    let listed = topics::list(&console.operations, caller, app, after, limit).await?;
    let has_more = listed.len() > PAGE;
    let listed: Vec<Topic> = listed.into_iter().take(PAGE).map(|(topic, _)| topic).collect();
    let ids: Vec<TopicId> = listed.iter().map(|topic| topic.id).collect();
    let counts = topics::count_subscribers(&console.operations, caller, app, &ids).await?;
    let rows = listed.into_iter().zip(counts).map(|(topic, subscribers)| TopicRow { topic, subscribers });
    Ok((rows.collect(), ids.last().copied().filter(|_| has_more)))
}

fn path(visit: &Visit, id: impl Plain<TopicId>, below: &str) -> String {
    visit.path(&format!("/topic/{}{below}", id.plain()))
}

async fn found(console: &Console, visit: &Visit, id: &str) -> Result<Topic, Refusal> {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::ChangeTopics, app)?;
    let id = id.parse().map_err(|_| OperationError::NotFound(Object::Topic))?;
    Ok(topics::find_numbered(&console.operations, caller, app, TopicId(id)).await?)
}

pub(crate) fn new(visit: Visit) -> Answer {
    visit.operator.caller.may(Permission::ChangeTopics, visit.app()?.id)?;
    let (identifier, name) = (String::new(), String::new());
    page(StatusCode::OK, &FormPage { visit, edited: None, identifier, name, open: false, problem: None })
}

pub(crate) async fn edit(console: &Console, visit: Visit, id: &str) -> Answer {
    let topic = found(console, &visit, id).await?;
    let (identifier, name, open) = (topic.identifier.clone(), topic.name.clone(), topic.open);
    page(StatusCode::OK, &FormPage { visit, edited: Some(topic), identifier, name, open, problem: None })
}

pub(crate) async fn create(change: Change<'_>) -> Answer {
    change.visit.operator.caller.may(Permission::ChangeTopics, change.visit.app()?.id)?;
    save(change, None).await
}

pub(crate) async fn update(change: Change<'_>, id: &str) -> Answer {
    let topic = found(change.console, &change.visit, id).await?;
    save(change, Some(topic)).await
}

/// Checks the fields, and returns the name.
fn checked(identifier: &str, name: &str, is_new: bool) -> Result<String, Vec<Problem>> {
    let mut problems = Vec::new();
    if is_new {
        check_topic_identifier("identifier", identifier.to_owned(), &mut problems);
    }
    let name = if name.is_empty() && is_new { identifier } else { name };
    let name = check_identifier("name", name.to_owned(), &mut problems);
    name.filter(|_| problems.is_empty()).ok_or(problems)
}

async fn save(change: Change<'_>, edited: Option<Topic>) -> Answer {
    let text = |name: &str| change.form.text(name).unwrap_or_default().to_owned();
    let (identifier, typed, open) = (text("identifier"), text("name"), change.form.text("open").is_some());
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    let operations = &change.console.operations;
    let result = match (checked(&identifier, &typed, edited.is_none()), &edited) {
        (Err(problems), _) => Err(OperationError::Invalid(problems)),
        (Ok(name), None) => topics::create(operations, caller, app, &identifier, &name, open).await,
        (Ok(name), Some(topic)) => {
            let seen = (topic.id, seen_time(&change)?);
            topics::change_seen(operations, caller, app, seen, Some(&name), Some(open)).await
        }
    };
    let (status, problem) = match result {
        Ok(_) => return Ok(see_other(change.visit.path("/topics?done=topic-saved"))),
        Err(OperationError::Conflict(Conflict::TopicExists)) => {
            (StatusCode::CONFLICT, "The app has a topic with this identifier already.".to_owned())
        }
        Err(OperationError::Invalid(problems)) => {
            (StatusCode::BAD_REQUEST, text::sentence(&domain::problem::joined(&problems)))
        }
        Err(error) => return Err(error.into()),
    };
    let (visit, problem) = (change.visit, Some(problem));
    page(status, &FormPage { visit, edited, identifier, name: typed, open, problem })
}

fn question(visit: &Visit, topic: &Topic, subscribers: Count) -> Question {
    Question {
        title: format!("Delete the topic {}?", topic.identifier),
        effect: format!(
            "Its {} will be unsubscribed. Sends to the topic reach no people, and a topic that is created again with this identifier begins without subscribers.",
            text::counted(subscribers, "subscriber", "subscribers")
        ),
        action: path(visit, topic.id, "/delete"),
        back: (path(visit, topic.id, ""), "The topic"),
        button: "Delete the topic",
        is_danger: true,
        choice: None,
        seen: topic.updated_at.millis().to_string(),
        is_step_up: false,
    }
}

pub(crate) async fn ask_delete(console: &Console, visit: Visit, request: &HttpRequest, id: &str) -> Answer {
    let topic = found(console, &visit, id).await?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let counts = topics::count_subscribers(&console.operations, caller, app, &[topic.id]).await?;
    let subscribers = counts.first().copied().unwrap_or(Count { number: 0, more: false });
    let question = question(&visit, &topic, subscribers);
    ask_question(console, visit, request, &question).await
}

pub(crate) async fn delete(change: Change<'_>, id: &str) -> Answer {
    let topic = found(change.console, &change.visit, id).await?;
    if seen_time(&change)? != topic.updated_at {
        return Err(OperationError::Conflict(Conflict::Changed).into());
    }
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    topics::delete_identified(&change.console.operations, caller, app, &topic.identifier).await?;
    Ok(see_other(change.visit.path("/topics?done=topic-deleted")))
}
