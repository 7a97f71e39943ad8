//! Which call goes where.

use actix_web::http::Method;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, Handler, Resource, Responder, Route};

use crate::directory::{categories, connect, preferences, users};
use crate::health;
use crate::http::failure::Failure;
use crate::inbox::{item, list};
use crate::openapi::document;
use crate::requests::{deliveries, request};
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
        .service(resource("/v3/notifications", [get(list::list), post(send::send)]))
        .service(resource("/v3/notifications/categories", [post(categories::create)]))
        .service(resource("/v3/notifications/categories/{id}", [delete(categories::delete)]))
        .service(resource("/v3/notifications/{id}", [get(item::retrieve), delete(item::delete)]))
        .service(resource("/v3/notifications/{id}/click", [post(item::read), patch(item::read)]))
        .service(resource(
            "/v3/notifications/{id}/reads",
            [put(item::read), post(item::read), delete(item::unread)],
        ))
        .service(resource(
            "/v3/notifications/{id}/views",
            [put(item::seen), post(item::seen), delete(item::unseen)],
        ))
        .service(resource("/v3/categories", [get(categories::list), post(categories::create)]))
        .service(resource("/v3/categories/{id}", [delete(categories::delete)]))
        .service(resource(
            "/v3/preferences",
            [get(preferences::list), patch(preferences::set), put(preferences::set)],
        ))
        .service(resource("/v3/users", [post(users::create)]))
        .service(resource("/v3/users/{id}", [put(users::merge)]))
        .service(resource("/v3/sdk/connect", [post(connect::connect)]))
        .service(resource("/v3/requests/{id}", [get(request::retrieve)]))
        .service(resource("/v3/requests/{id}/deliveries", [get(deliveries::list)]))
        .service(resource("/healthz", [get(health::alive)]))
        .service(resource("/readyz", [get(health::ready)]))
        .service(resource("/openapi.json", [get(document::serve)]))
}

/// A path and its calls. Any other method is a 405.
fn resource<const CALLS: usize>(
    path: &'static str,
    calls: [(Method, Route); CALLS],
) -> (&'static str, Vec<Method>, Resource) {
    let methods = calls.iter().map(|(method, _)| method.clone()).collect();
    let allow = calls.each_ref().map(|(method, _)| method.as_str()).join(", ");
    let mut resource = web::resource(path);
    for (_, route) in calls {
        resource = resource.route(route);
    }
    let resource = resource.default_service(web::to(move || {
        let allow = allow.clone();
        async move { Err::<String, _>(Failure::Method(allow)) }
    }));
    (path, methods, resource)
}

macro_rules! methods {
    ($($name:ident = $method:ident),+) => { $(
        fn $name<H, Arguments>(handler: H) -> (Method, Route)
        where
            H: Handler<Arguments>,
            Arguments: FromRequest + 'static,
            H::Output: Responder + 'static,
        {
            (Method::$method, web::$name().to(handler))
        }
    )+ };
}

methods!(get = GET, post = POST, put = PUT, patch = PATCH, delete = DELETE);

async fn no_such_route() -> Result<String, Failure> {
    Err(Failure::not_found("no such route"))
}
