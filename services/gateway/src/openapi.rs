//! The OpenAPI document of the API, generated from the handlers.
//!
//! To describe a handler:
//! 1. Give it `#[utoipa::path(...)]` with method, path as in `routes.rs`, `operation_id`, `tag` (one of those below),
//!    `security(("app" = []))`, `"user"` or `"either"` for the argument `AppCaller`, `UserCaller` or `Caller`, the
//!    parameters of path and query, `request_body` and the successes: `(status = 200, body = …, description = "…")`.
//!    The first line of its doc comment becomes the summary, the rest the description. Deprecated handlers say
//!    `extensions(("x-deprecated" = json!(true)))`.
//! 2. Name it in `paths(…)` below. A test compares the document with the routes. A further path of the same handler
//!    is a line in `alias.rs`.
//! 3. Derive `ToSchema` on the struct of an answer, next to its handler, with an example. Add `#[schema(as = …)]` if its
//!    name is taken. All members are required: a member without a value is null. Write types of `domain` as
//!    `#[schema(value_type = Option<Time>)]`, with the schemas of `vocabulary.rs`.
//! 4. Define the struct of a request in a file of this folder. It exists only for its schema: `Fields` reads the body.
//! 5. `shared.rs` adds headers and the errors that any handler can answer. For others, such as 409 and 422, state
//!    only `(status = 409, description = "…")`. The API suite checks every answer against the document.

pub(crate) mod alias;
pub(crate) mod callback;
pub(crate) mod category;
pub(crate) mod device;
pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod inbox;
pub(crate) mod page;
pub(crate) mod patch;
pub(crate) mod preference;
pub(crate) mod readiness;
pub(crate) mod security;
pub(crate) mod send;
pub(crate) mod shared;
pub(crate) mod subscription;
pub(crate) mod user;
pub(crate) mod vocabulary;

use utoipa::OpenApi;

use crate::callbacks::twilio;
use crate::directory::{
    bulk, categories, connect, devices, erasure, preferences, profile, unsubscribe, users,
};
use crate::inbox::{app_state, click, item, list, whole};
use crate::requests::{cancellation, deliveries, request};
use crate::sending::send as sending;
use crate::{health, openapi};

/// The document as the handlers describe themselves.
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
        (name = "devices", description = "The devices that a user signs in on."),
        (name = "users", description = "The users of an app."),
        (name = "callbacks", description = "Status reports and incoming messages of providers. The provider signs these calls."),
        (name = "operation", description = "Probes, this document and its page. These calls need no credentials."),
    ),
    paths(
        sending::send,
        list::list,
        item::retrieve,
        item::delete,
        item::read,
        item::unread,
        item::seen,
        item::unseen,
        app_state::set,
        click::report,
        whole::seen,
        whole::read,
        whole::delete,
        categories::list,
        categories::create,
        categories::delete,
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
        request::retrieve,
        cancellation::cancel,
        deliveries::list,
        twilio::status,
        twilio::message,
        health::alive,
        health::ready,
        openapi::document::serve,
        openapi::page::page,
        openapi::page::page_file,
    ),
    components(schemas(error::Problems, error::Refusal, error::Defect)),
)]
struct Handlers;

#[cfg(test)]
#[path = "openapi/tests.rs"]
mod tests;
