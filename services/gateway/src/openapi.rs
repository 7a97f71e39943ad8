//! The OpenAPI document of the API, generated from the handlers.
//!
//! To describe a handler:
//! 1. Give it `#[utoipa::path(...)]` with the method, the path as in `routes.rs`, `operation_id`, a `tag` from the list below,
//!    the parameters of path and query, `request_body`, and each successful response as
//!    `(status = 200, body = …, description = "…")`. Also add `security(("app" = []))` if its argument is `AppCaller`; for
//!    `UserCaller` the name is `"user"`, for `Caller` it is `"either"`. The first line of its doc comment becomes the summary,
//!    the rest the description. If it is deprecated, add `extensions(("x-deprecated" = json!(true)))`.
//! 2. Add it to `paths(…)` below. A test compares the document with the routes. If the handler has another
//!    path too, add a line to `alias.rs`.
//! 3. Derive `ToSchema` for the struct of its answer, next to the handler, and give it an example. Add `#[schema(as = …)]` if
//!    another schema has the same name. All members are required: a member without a value is null. For a member whose type is
//!    from `domain`, name a schema of `vocabulary.rs`, for example `#[schema(value_type = Option<Time>)]`.
//! 4. Declare its request body with `domain::body!` next to the code that reads it, and add it to `described.rs`. The reader and
//!    the schema come from the declaration.
//! 5. `web::openapi` and `shared.rs` add the headers, and the errors that every handler can return. For other errors, such as 409 and 422, state
//!    only `(status = 409, description = "…")`. The API suite checks every answer against the document.

pub(crate) mod alias;
pub(crate) mod described;
pub(crate) mod document;
pub(crate) mod page;
pub(crate) mod security;
pub(crate) mod shared;
pub(crate) mod vocabulary;

use serde_json::Value;
use utoipa::OpenApi;
use web::failure::{DefectBody, ErrorBody, ProblemsBody};
use web::openapi::{answer_schemas, operations, require_members};

use crate::clients;
use crate::deliveries;
use crate::deliveries::callbacks::twilio;
use crate::directory::{
    bulk, categories, connect, devices, erasure, preferences, profile, subscribers, subscriptions, topics,
    unsubscribe, users,
};
use crate::front;
use crate::handbook;
use crate::health;
use crate::inbox::{app_state, bulk as many, click, counts, item, list, place, whole};
use crate::realtime::{socket_io, stream};
use crate::sends::{self, cancellation, status, workflows};

/// The document as utoipa builds it from the handlers. [`describe`] completes it.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidings",
        version = "3.0.0",
        description = include_str!("openapi/description.md"),
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "sending", description = "Sending notifications from an app's backend."),
        (name = "requests", description = "The outcome of a send, for each recipient and each attempt."),
        (name = "inbox", description = "Reading and changing the notifications of a user."),
        (name = "profile", description = "The profile of a user."),
        (name = "preferences", description = "The channels that a user accepts for each category."),
        (name = "categories", description = "The categories of an app's notifications."),
        (name = "topics", description = "Named lists of users to which an app can send, and who subscribes to them."),
        (name = "devices", description = "The devices that a user signs in on."),
        (name = "users", description = "The users of an app."),
        (name = "callbacks", description = "Status reports and incoming messages of providers. The provider signs these calls."),
        (name = "operation", description = "Probes, this document, the guides and the browser clients. These calls need no credentials."),
    ),
    paths(
        sends::accept::send,
        list::list,
        stream::open,
        socket_io::open,
        counts::retrieve,
        many::change,
        item::retrieve,
        item::delete,
        item::read,
        item::unread,
        item::seen,
        item::unseen,
        place::archive,
        place::unarchive,
        place::snooze,
        place::unsnooze,
        app_state::set,
        click::report,
        whole::seen,
        whole::read,
        whole::delete,
        categories::list,
        categories::create,
        categories::put,
        categories::delete,
        topics::list,
        topics::create,
        topics::put,
        topics::change,
        topics::retrieve,
        topics::delete,
        subscriptions::change,
        subscriptions::list,
        subscriptions::list_of_user,
        subscribers::add,
        subscribers::remove,
        subscribers::set_channels,
        subscribers::list_of_user,
        subscriptions::retrieve_own,
        subscriptions::subscribe,
        subscriptions::unsubscribe,
        preferences::list,
        preferences::set,
        profile::retrieve,
        profile::merge,
        profile::change,
        users::list,
        users::create,
        users::retrieve,
        users::merge,
        erasure::erase,
        bulk::merge,
        connect::connect,
        devices::subscribe,
        devices::unsubscribe,
        devices::remove_push_token,
        unsubscribe::ask,
        unsubscribe::unsubscribe,
        unsubscribe::show_preferences,
        unsubscribe::set_preferences,
        sends::list::list,
        deliveries::explain::explain,
        status::retrieve,
        cancellation::cancel,
        cancellation::cancel_keyed,
        workflows::cancel,
        deliveries::list::list,
        twilio::status,
        twilio::message,
        front::page,
        front::icon,
        front::favicon,
        health::alive,
        health::ready,
        document::serve,
        page::page,
        page::page_file,
        handbook::first,
        handbook::page,
        handbook::llms,
        handbook::llms_full,
        clients::newest,
        clients::versioned,
    ),
    components(schemas(
        ProblemsBody,
        ErrorBody,
        DefectBody,
        // Request bodies refer to these.
        vocabulary::Identifier,
        vocabulary::TopicIdentifier,
        vocabulary::Id,
        vocabulary::Time,
        vocabulary::FreeObject,
        vocabulary::Channel,
        vocabulary::Lane,
    )),
)]
struct Handlers;

/// Builds the OpenAPI document of a gateway whose credential headers begin with `prefix`: the descriptions of the handlers, and
/// the parts that all operations share.
pub(crate) fn describe(prefix: &str) -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(Handlers::openapi())?;
    if let Some(paths) = document["paths"].as_object_mut() {
        alias::add(paths);
        for (path, operation) in operations(paths) {
            shared::complete(path, prefix, operation);
        }
    }
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        web::described::add(schemas);
        described::add(schemas);
    }
    let answers = answer_schemas(&document);
    if let Some(components) = document["components"].as_object_mut() {
        shared::add_components(components);
        components.insert("securitySchemes".to_owned(), security::schemes(prefix));
        answers.iter().for_each(|name| require_members(&mut components["schemas"][name]));
    }
    Ok(document)
}

#[cfg(test)]
#[path = "openapi/tests.rs"]
mod tests;
