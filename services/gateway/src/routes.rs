//! Which call goes where.

use actix_web::Resource;
use actix_web::http::Method;
use actix_web::web::{self, ServiceConfig};

use crate::directory::{categories, connect, devices, erasure, preferences, users};
use crate::health;
use crate::http::call::{delete, for_users, get, patch, post, put, resource};
use crate::http::failure::Failure;
use crate::inbox::{item, list};
use crate::openapi::{document, page};
use crate::requests::{cancellation, deliveries, request};
use crate::sending::send;

/// Routes every call of the interface.
pub(crate) fn routes(server: &mut ServiceConfig) {
    for (_, _, resource) in table().resources {
        server.service(resource);
    }
    server.default_service(web::to(no_such_route));
}

/// The paths of the interface, each with its methods.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) resources: Vec<(&'static str, Vec<Method>, Resource)>,
}

impl Table {
    fn service(mut self, resource: (&'static str, Vec<Method>, Resource)) -> Table {
        self.resources.push(resource);
        self
    }
}

/// Every call of the interface.
pub(crate) fn table() -> Table {
    Table::default()
        .service(resource("/v3/notifications", [get(list::list).for_users(), post(send::send)]))
        .service(resource("/v3/notifications/categories", [post(categories::create)]))
        .service(resource("/v3/notifications/categories/{id}", [delete(categories::delete)]))
        .service(resource("/v3/notifications/{id}", for_users([get(item::retrieve), delete(item::delete)])))
        .service(resource("/v3/notifications/{id}/click", for_users([post(item::read), patch(item::read)])))
        .service(resource(
            "/v3/notifications/{id}/reads",
            for_users([put(item::read), post(item::read), delete(item::unread)]),
        ))
        .service(resource(
            "/v3/notifications/{id}/views",
            for_users([put(item::seen), post(item::seen), delete(item::unseen)]),
        ))
        .service(resource("/v3/categories", [get(categories::list).for_users(), post(categories::create)]))
        .service(resource("/v3/categories/{id}", [delete(categories::delete)]))
        .service(resource(
            "/v3/preferences",
            for_users([get(preferences::list), patch(preferences::set), put(preferences::set)]),
        ))
        .service(resource("/v3/users", [post(users::create)]))
        .service(resource("/v3/users/{id}", [put(users::merge), delete(erasure::erase)]))
        .service(resource("/v3/sdk/connect", for_users([post(connect::connect)])))
        .service(resource(
            "/v3/devices/{id}/webPushSubscription",
            for_users([post(devices::subscribe), delete(devices::unsubscribe)]),
        ))
        .service(resource("/v3/requests/{id}", [get(request::retrieve), delete(cancellation::cancel)]))
        .service(resource("/v3/requests/{id}/deliveries", [get(deliveries::list)]))
        .service(resource("/healthz", [get(health::alive)]))
        .service(resource("/readyz", [get(health::ready)]))
        .service(resource("/openapi.json", [get(document::serve)]))
        .service(resource("/docs", [get(page::page)]))
        .service(resource("/docs/{file}", [get(page::page_file)]))
}

async fn no_such_route() -> Result<String, Failure> {
    Err(Failure::not_found("no such route"))
}
