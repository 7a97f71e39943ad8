//! `/v3/categories`: the categories of an app.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use domain::body::kind::{As, Filled, Flag, Identifier as IdentifierMember, Text};
use domain::content::Object;
use domain::fields::{Fields, MAX_IDENTIFIER};
use domain::{CategoryId, Problem, Timestamp};
use operations::categories::{self, MOST_LISTED};
use serde::Serialize;
use serde_json::{Value, json};
use store::directory::category::{Category, CategoryValues, NewCategory};
use utoipa::ToSchema;
use web::body::{Body, read_members};
use web::cursor;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::query::Query;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::{AppCaller, Caller};
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{Cursor, Id, Identifier, Time};

const MOST_ORDER: i32 = 10_000;

domain::body! {
    /// A category to create.
    pub(crate) struct CategoryToCreate as "NewCategory" {
        /// Unique within the app.
        required identifier: IdentifierMember,
        /// Display name, shown to users.
        required name: As<Filled<MAX_IDENTIFIER>, Text<MAX_IDENTIFIER>>,
        /// Critical: user preferences are ignored for this category. Default: false.
        optional critical: Flag,
        /// Hint for clients to hide the category in inboxes. Lists and counters ignore it. Default: false.
        optional hide_in_in_app as "hideInInApp": Flag,
        /// Hint for clients to hide the category on preference screens. Default: false.
        optional hide_in_preference_manager as "hideInPreferenceManager": Flag,
        /// Position on preference screens, ascending. Categories with the same one are in order of creation. Default: 0.
        optional order: Order,
    }
    example {"identifier": "orders", "name": "Orders"}
}

domain::body! {
    /// Values of a category. A value that is not given stays as it is.
    pub(crate) struct CategoryChange as "CategoryValues" {
        /// Display name, shown to users. Default for a new category: its identifier.
        optional name: Filled<MAX_IDENTIFIER>,
        /// Critical: user preferences are ignored for this category. Default for a new category: false.
        optional critical: Flag,
        /// Hint for clients to hide the category in inboxes. Default for a new category: false.
        optional hide_in_in_app as "hideInInApp": Flag,
        /// Hint for clients to hide the category on preference screens. Default for a new category: false.
        optional hide_in_preference_manager as "hideInPreferenceManager": Flag,
        /// Position on preference screens, ascending. Categories with the same one are in order of creation. Default for a new
        /// category: 0.
        optional order: Order,
    }
    example {"name": "Orders", "critical": false}
}

/// A position from 0 to 10,000.
pub(crate) struct Order;

domain::kinds! {
    Order, () => i32, read_order, |_| json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": MOST_ORDER});
}

fn read_order(fields: &mut Fields, key: &'static str, problems: &mut Vec<Problem>) -> Option<i32> {
    let sent = fields.whole_number(key, problems)?;
    let order = i32::try_from(sent).ok().filter(|order| (0..=MOST_ORDER).contains(order));
    if order.is_none() {
        problems.push(Problem::new(key, "out_of_range", format!("{key} must be from 0 to {MOST_ORDER}")));
    }
    order
}

/// A category of an app's notifications.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Category, example = json!({
    "id": 7, "name": "Orders", "identifier": "orders", "critical": false, "hideInInApp": false, "hideInPreferenceManager": false,
    "order": 0, "createdAt": "2027-01-31T09:00:00.000Z", "updatedAt": "2027-01-31T09:00:00.000Z",
}))]
struct CategoryBody<'a> {
    #[schema(value_type = Id)]
    id: CategoryId,
    name: &'a str,
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    /// True if user preferences are ignored for the category. Clients show its switches as locked.
    critical: bool,
    /// Hint for clients to hide the category in inboxes. Lists and counters ignore it.
    hide_in_in_app: bool,
    /// Hint for clients to hide the category on preference screens.
    hide_in_preference_manager: bool,
    /// Position on preference screens, ascending. Categories with the same one are in order of creation.
    order: i32,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Time)]
    updated_at: Timestamp,
}

/// Creates a category.
#[utoipa::path(
    post,
    path = "/v3/categories",
    operation_id = "createCategory",
    tag = "categories",
    security(("app" = [])),
    request_body = described::NewCategory,
    responses(
        (status = 200, description = "The new category.", body = CategoryBody),
        (status = 403, description = "The app has reached its quota of categories (`quota_reached`), or is disabled."),
        (status = 409, description = "A category with this identifier already exists."),
    ),
)]
pub(crate) async fn create(
    caller: AppCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let new = read_members(body, handling.strict, |new: &mut CategoryToCreate, problems| {
        let identifier = new.identifier(problems);
        let name = read_name(new, problems);
        let critical = new.critical(problems).unwrap_or(false);
        let hide_in_in_app = new.hide_in_in_app(problems).unwrap_or(false);
        let hide_in_preference_manager = new.hide_in_preference_manager(problems).unwrap_or(false);
        let order = new.order(problems).unwrap_or(0);
        Some((identifier?, name?, (critical, hide_in_in_app, hide_in_preference_manager), order))
    });
    let (identifier, name, flags, order) = new?;
    let (critical, hide_in_in_app, hide_in_preference_manager) = flags;
    let new = NewCategory {
        identifier: &identifier,
        name: &name,
        critical,
        hide_in_in_app,
        hide_in_preference_manager,
        order,
    };
    let category = categories::create(&gateway.operations, &caller.backend, caller.app, new).await?;
    Ok(HttpResponse::Ok().json(present(&category)))
}

/// Creates a category, or changes the given values of an existing one.
///
/// The first send that names a category creates it with its identifier as the name. This call gives it a name that users
/// understand. The `id` in the path is the identifier, such as `orders`, and not the number that the answers have as `id`.
#[utoipa::path(
    put,
    path = "/v3/categories/{id}",
    operation_id = "putCategory",
    tag = "categories",
    security(("app" = [])),
    params(("id" = Identifier, Path, description = "The category's identifier, such as `orders`.")),
    request_body = Option<described::CategoryValues>,
    responses(
        (status = 200, description = "The category.", body = CategoryBody),
        (status = 403, description = "The app has reached its quota of categories (`quota_reached`), or is disabled."),
    ),
)]
pub(crate) async fn put(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.optional_json().await?;
    let identifier = id.category_identifier()?;
    let body = body.filter(|body| !body.is_null()).unwrap_or_else(|| Value::Object(Object::new()));
    let change = read_members(body, handling.strict, |change: &mut CategoryChange, problems| {
        let name = change.name(problems);
        let critical = change.critical(problems);
        let hide_in_in_app = change.hide_in_in_app(problems);
        let hide_in_preference_manager = change.hide_in_preference_manager(problems);
        let order = change.order(problems);
        Some((name, critical, hide_in_in_app, hide_in_preference_manager, order))
    });
    let (name, critical, hide_in_in_app, hide_in_preference_manager, order) = change?;
    let name = name.as_deref();
    let values = CategoryValues { name, critical, hide_in_in_app, hide_in_preference_manager, order };
    let putting = categories::put(&gateway.operations, &caller.backend, caller.app, &identifier, values);
    Ok(HttpResponse::Ok().json(present(&putting.await?)))
}

/// Lists the categories, in order of creation.
///
/// The answer has at most 1,000 categories. If more exist, the header `Link` leads to the next page (`rel="next"`, RFC 8288).
#[utoipa::path(
    get,
    path = "/v3/categories",
    operation_id = "listCategories",
    tag = "categories",
    security(("either" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "Maximum number of categories; 1000 by default.", minimum = 1, maximum = 1000),
        ("cursor" = inline(Option<Cursor>), Query, description = "The cursor in the `Link` of an earlier answer."),
    ),
    responses((status = 200, description = "The categories of the app.", body = Vec<CategoryBody>)),
)]
pub(crate) async fn list(
    caller: Caller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let limit = query.number("limit", 1..=MOST_LISTED, &mut problems).unwrap_or(MOST_LISTED);
    let after = cursor::read(&query, |text| text.parse().ok(), &mut problems);
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;
    // Read one category more than the page shows, to find out if there is a next page.
    let listed = categories::list(&gateway.operations, &caller.caller, caller.app, after, limit + 1);
    let categories = listed.await?;
    Ok(cursor::linked_page("/v3/categories", limit, &categories, |category| category.id, present))
}

/// Deletes a category and the users' preferences for it.
///
/// Past notifications of the category keep their text, and no longer show a category. A later send that names the identifier
/// creates a new category.
#[utoipa::path(
    delete,
    path = "/v3/categories/{id}",
    operation_id = "deleteCategory",
    tag = "categories",
    security(("app" = [])),
    params(("id" = Id, Path, description = "The category's id.")),
    responses((status = 200, description = "The category is deleted.", body = StatusBody)),
)]
pub(crate) async fn delete(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let id = id.category()?;
    categories::delete(&gateway.operations, &caller.backend, caller.app, id).await?;
    Ok(status_body(StatusCode::OK, "the category was deleted"))
}

fn read_name(new: &mut CategoryToCreate, problems: &mut Vec<Problem>) -> Option<String> {
    let name = new.name(problems)?;
    if name.is_empty() {
        problems.push(Problem::new("name", "required", "name must not be empty"));
    }
    Some(name)
}

fn present(category: &Category) -> CategoryBody<'_> {
    CategoryBody {
        id: category.id,
        name: &category.name,
        identifier: &category.identifier,
        critical: category.critical,
        hide_in_in_app: category.hide_in_in_app,
        hide_in_preference_manager: category.hide_in_preference_manager,
        order: category.order,
        created_at: category.created_at,
        updated_at: category.updated_at,
    }
}
