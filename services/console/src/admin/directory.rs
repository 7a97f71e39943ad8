//! Categories and topics of an app.

use domain::body::kind::{Filled, Flag, Whole};
use domain::fields::{MAX_IDENTIFIER, check_identifier};
use domain::topic::check_topic_identifier;
use domain::{CategoryId, Problem, Timestamp, TopicId};
use operations::{categories, topics};
use serde::Serialize;
use store::directory::category::{Category, CategoryValues};
use store::directory::topic::Topic;
use utoipa::ToSchema;
use web::cursor;
use web::failure::valid_or_problems;
use web::vocabulary::Time;

use super::call::{Answer, Call, limit};
use super::route::Nothing;
use super::shape::Page;

/// Largest position of a category.
const MOST_ORDER: i64 = 10_000;

/// A category of an app's notifications.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Category)]
pub(super) struct CategoryBody {
    id: String,
    identifier: String,
    name: String,
    /// True if user preferences are ignored for the category.
    critical: bool,
    hide_in_in_app: bool,
    hide_in_preference_manager: bool,
    /// Position on preference screens, ascending.
    order: i32,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Time)]
    updated_at: Timestamp,
}

/// A topic.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Topic)]
pub(super) struct TopicBody {
    id: String,
    identifier: String,
    name: String,
    /// True if users may subscribe themselves.
    open: bool,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Time)]
    updated_at: Timestamp,
}

domain::body! {
    /// Values of a category. A value that is not given stays as it is.
    pub(super) struct CategoryChange {
        optional name: Filled<MAX_IDENTIFIER>,
        optional critical: Flag,
        optional hide_in_in_app as "hideInInApp": Flag,
        optional hide_in_preference_manager as "hideInPreferenceManager": Flag,
        /// Position on preference screens, from 0 to 10,000.
        optional order: Whole,
    }
    example {"name": "Orders"}
}

domain::body! {
    /// Values of a topic. A value that is not given stays as it is.
    pub(super) struct TopicChange {
        optional name: Filled<MAX_IDENTIFIER>,
        optional open: Flag,
    }
    example {"name": "News", "open": true}
}

impl From<Category> for CategoryBody {
    fn from(category: Category) -> CategoryBody {
        CategoryBody {
            id: category.id.to_string(),
            identifier: category.identifier,
            name: category.name,
            critical: category.critical,
            hide_in_in_app: category.hide_in_in_app,
            hide_in_preference_manager: category.hide_in_preference_manager,
            order: category.order,
            created_at: category.created_at,
            updated_at: category.updated_at,
        }
    }
}

impl From<Topic> for TopicBody {
    fn from(topic: Topic) -> TopicBody {
        TopicBody {
            id: topic.id.to_string(),
            identifier: topic.identifier,
            name: topic.name,
            open: topic.open,
            created_at: topic.created_at,
            updated_at: topic.updated_at,
        }
    }
}

pub(super) async fn list_categories(call: &Call<'_>) -> Answer<Page<CategoryBody>> {
    let app = call.app()?.id;
    let (limit, after) = call.query(|query, problems| {
        let after = cursor::read(query, |text| text.parse().ok().map(CategoryId), problems);
        (limit(query, problems), after)
    })?;
    let mut found = categories::list(call.operations(), &call.caller, app, after, one_more(limit)).await?;
    let next = continues(&mut found, limit).map(|last| last.id);
    Ok(Page::new(found, next))
}

pub(super) async fn put_category(call: &Call<'_>) -> Answer<CategoryBody> {
    let (app, identifier) = (call.app()?.id, identifier(call, "category")?);
    let (name, flags, order) = call.body(|change: &mut CategoryChange, problems| {
        let name = change.name(problems);
        let flags = (
            change.critical(problems),
            change.hide_in_in_app(problems),
            change.hide_in_preference_manager(problems),
        );
        let order = change.order(problems);
        let number =
            order.map(|order| i32::try_from(order).ok().filter(|_| (0..=MOST_ORDER).contains(&order)));
        if number == Some(None) {
            problems.push(Problem::new(
                "order",
                "out_of_range",
                format!("order must be from 0 to {MOST_ORDER}"),
            ));
        }
        Some((name, flags, number.flatten()))
    })?;
    let (critical, hide_in_in_app, hide_in_preference_manager) = flags;
    let values =
        CategoryValues { name: name.as_deref(), critical, hide_in_in_app, hide_in_preference_manager, order };
    Ok(categories::put(call.operations(), &call.caller, app, &identifier, values).await?.into())
}

pub(super) async fn remove_category(call: &Call<'_>) -> Answer<Nothing> {
    let (app, id) = (call.app()?.id, CategoryId(call.number("category")?));
    categories::delete(call.operations(), &call.caller, app, id).await?;
    Ok(Nothing {})
}

pub(super) async fn list_topics(call: &Call<'_>) -> Answer<Page<TopicBody>> {
    let app = call.app()?.id;
    let (limit, after) = call.query(|query, problems| {
        let after = cursor::read(query, |text| text.parse().ok().map(TopicId), problems);
        (limit(query, problems), after)
    })?;
    let found = topics::list(call.operations(), &call.caller, app, after, one_more(limit)).await?;
    let mut found: Vec<Topic> = found.into_iter().map(|(topic, _)| topic).collect();
    let next = continues(&mut found, limit).map(|last| last.id);
    Ok(Page::new(found, next))
}

pub(super) async fn put_topic(call: &Call<'_>) -> Answer<TopicBody> {
    let (app, identifier) = (call.app()?.id, topic_identifier(call)?);
    let (name, open) =
        call.body(|change: &mut TopicChange, problems| Some((change.name(problems), change.open(problems))))?;
    Ok(topics::put(call.operations(), &call.caller, app, &identifier, name.as_deref(), open).await?.into())
}

pub(super) async fn remove_topic(call: &Call<'_>) -> Answer<Nothing> {
    let app = call.app()?.id;
    topics::delete_identified(call.operations(), &call.caller, app, call.path("topic")).await?;
    Ok(Nothing {})
}

fn identifier(call: &Call<'_>, name: &str) -> Answer<String> {
    let mut problems = Vec::new();
    let checked = check_identifier(name, call.path(name).to_owned(), &mut problems);
    Ok(valid_or_problems(checked, problems)?)
}

fn topic_identifier(call: &Call<'_>) -> Answer<String> {
    let mut problems = Vec::new();
    let checked = check_topic_identifier("topic", call.path("topic").to_owned(), &mut problems);
    Ok(valid_or_problems(checked, problems)?)
}

/// Returns the number of rows that shows whether the list continues.
fn one_more(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

/// Removes the row beyond the page, and returns the last row of the page if there was one.
fn continues<T>(rows: &mut Vec<T>, limit: usize) -> Option<&T> {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    rows.last().filter(|_| has_more)
}
