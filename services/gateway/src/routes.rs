//! The routes of the API.

use std::borrow::Cow;

use actix_web::http::{Method, StatusCode};
use actix_web::web::{Data, ServiceConfig, to};
use actix_web::{HttpRequest, HttpResponse, Resource};
use web::call::{change, delete, for_users, get, patch, post, put, resource};
use web::declared::Declared;
use web::failure::Failure;
use web::stranger::Stranger;

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
use crate::openapi::{document, page};
use crate::realtime::{socket_io, stream};
use crate::rendered_file::missing;
use crate::sends::{accept, cancellation, list as sends, status, workflows};

pub(crate) fn routes(server: &mut ServiceConfig) {
    for (_, _, resource) in table().resources {
        server.service(resource);
    }
    server.default_service(to(no_such_route));
}

/// A path of the API, its methods, and the resource that serves it.
type PathEntry = (&'static str, Vec<Method>, Resource);

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) resources: Vec<PathEntry>,
}

impl Table {
    fn service(mut self, resource: PathEntry) -> Table {
        self.resources.push(resource);
        self
    }

    /// Adds the paths that move a notification off the list, and back.
    fn with_places(self) -> Table {
        let archive = for_users([put(place::archive), delete(place::unarchive)]);
        let snooze = for_users([put(place::snooze), delete(place::unsnooze)]);
        self.service(resource("/v3/notifications/{id}/archive", archive))
            .service(resource("/v3/notifications/{id}/snooze", snooze))
    }

    /// Adds the paths that recipients of emails open, and those that providers call.
    fn with_links_and_callbacks(self) -> Table {
        self.service(resource(
            "/v3/unsubscribe/{token}",
            [get(unsubscribe::ask), post(unsubscribe::unsubscribe)],
        ))
        .service(resource(
            "/v3/unsubscribe/{token}/preferences",
            [get(unsubscribe::show_preferences), post(unsubscribe::set_preferences)],
        ))
        .service(resource("/v3/callbacks/twilio/{app}/{provider}/messages", [post(twilio::message)]))
        .service(resource("/v3/callbacks/twilio/{app}/{provider}/{delivery}", [post(twilio::status)]))
    }

    fn with_topics(self) -> Table {
        self.service(resource("/v3/topics", [get(topics::list).for_users(), post(topics::create)]))
            .service(resource(
                "/v3/topics/{id}",
                [get(topics::retrieve), put(topics::put), patch(topics::change), delete(topics::delete)],
            ))
            .service(resource(
                "/v3/topics/{id}/subscriptions",
                [get(subscriptions::list), post(subscriptions::change)],
            ))
            .service(resource(
                "/v3/topics/{id}/subscription",
                for_users([
                    get(subscriptions::retrieve_own),
                    put(subscriptions::subscribe),
                    delete(subscriptions::unsubscribe),
                ]),
            ))
            .service(resource("/v3/topics/subscriptions/{id}", [get(subscribers::list_of_user)]))
            .service(resource("/v3/topics/{id}/users", [post(subscribers::add)]))
            .service(resource("/v3/topics/{id}/users/{user}", [put(subscribers::set_channels)]))
            .service(resource("/v3/topics/{id}/detachUsers", [post(subscribers::remove)]))
            .service(resource("/v3/users/{id}/topics", [get(subscriptions::list_of_user)]))
    }

    /// Adds the paths outside of the API: the front page, probes, its document, the guides, and the files of the browser clients.
    fn with_operation(self) -> Table {
        self.service(resource("/", [get(front::page)]))
            .service(resource("/icon.svg", [get(front::icon)]))
            .service(resource("/favicon.ico", [get(front::favicon)]))
            .service(resource("/healthz", [get(health::alive)]))
            .service(resource("/readyz", [get(health::ready)]))
            .service(resource("/openapi.json", [get(document::serve)]))
            .service(resource("/docs", [get(page::page)]))
            .service(resource("/docs/{file}", [get(page::page_file)]))
            .service(resource("/guide", [get(handbook::first)]))
            .service(resource("/guide/{page}", [get(handbook::page)]))
            .service(resource("/llms.txt", [get(handbook::llms)]))
            .service(resource("/llms-full.txt", [get(handbook::llms_full)]))
            .service(resource("/clients/{folder}/{file}", [get(clients::newest)]))
            .service(resource("/clients/{version}/{folder}/{file}", [get(clients::versioned)]))
    }
}

pub(crate) fn table() -> Table {
    Table::default()
        .service(resource("/v3/notifications", [get(list::list).for_users(), post(accept::send)]))
        .service(resource("/v3/notifications/categories", [post(categories::create)]))
        .service(resource("/v3/notifications/categories/{id}", [delete(categories::delete)]))
        .service(resource("/v3/markAllNotificationsAsSeen", for_users(change(whole::seen))))
        .service(resource("/v3/notifications/markAllNotificationsAsSeen", for_users(change(whole::seen))))
        .service(resource("/v3/notifications/markAllNotificationsAsRead", for_users(change(whole::read))))
        .service(resource(
            "/v3/notifications/markAllNotificationsAsDeleted",
            for_users(change(whole::delete)),
        ))
        .service(resource("/v3/notifications/bulk", for_users([post(many::change)])))
        .service(resource("/v3/notifications/counts", for_users([get(counts::retrieve)])))
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
        .service(resource("/v3/notifications/{id}/state", for_users([put(app_state::set)])))
        .service(resource("/v3/categories", [get(categories::list).for_users(), post(categories::create)]))
        .service(resource("/v3/categories/{id}", [put(categories::put), delete(categories::delete)]))
        .service(resource(
            "/v3/preferences",
            for_users([get(preferences::list), patch(preferences::set), put(preferences::set)]),
        ))
        .service(resource(
            "/v3/profile",
            for_users([get(profile::retrieve), put(profile::merge), patch(profile::change)]),
        ))
        .service(resource("/v3/users", [get(users::list), post(users::create)]))
        .service(users_in_bulk())
        .service(resource(
            "/v3/users/{id}",
            [get(users::retrieve), put(users::merge), delete(erasure::erase)],
        ))
        .service(resource("/socket.io", for_users([get(socket_io::open)])))
        .service(resource("/v3/stream", for_users([get(stream::open)])))
        .service(resource("/v3/sdk/connect", for_users([post(connect::connect)])))
        .service(resource(
            "/v3/devices/{id}/webPushSubscription",
            for_users([post(devices::subscribe), delete(devices::unsubscribe)]),
        ))
        .service(resource("/v3/devices/{id}/pushToken", for_users([delete(devices::remove_push_token)])))
        .service(resource("/v3/push/click/{id}", for_users([post(click::report)])))
        .service(resource("/v3/explain", [get(deliveries::explain::explain)]))
        .service(resource("/v3/requests", [get(sends::list), delete(cancellation::cancel_keyed)]))
        .service(resource("/v3/requests/{id}", [get(status::retrieve), delete(cancellation::cancel)]))
        .service(resource("/v3/workflows/{id}", [patch(workflows::cancel)]))
        .service(resource("/v3/requests/{id}/deliveries", [get(deliveries::list::list)]))
        .with_links_and_callbacks()
        .with_places()
        .with_topics()
        .with_operation()
}

/// Builds the resource of `/v3/users/bulk`. Since `bulk` is also a valid user identifier, this path serves the calls of
/// `/v3/users/{id}` too.
fn users_in_bulk() -> PathEntry {
    let calls = [post(bulk::merge), get(users::retrieve), put(users::merge), delete(erasure::erase)];
    let (_, methods, resource) = resource("/v3/users/{id:bulk}", calls);
    ("/v3/users/bulk", methods, resource)
}

async fn no_such_route(
    _: Stranger,
    request: HttpRequest,
    declared: Data<Declared>,
) -> Result<HttpResponse, Failure> {
    if ["/guide/", "/docs/"].iter().any(|folder| request.path().starts_with(folder)) {
        return missing(&request, "no such page");
    }
    let message = match declared.nearest(request.method(), request.path()) {
        Some(nearest) => format!("no such route; did you mean {nearest}?").into(),
        None => Cow::Borrowed("no such route; GET /docs lists the routes"),
    };
    Err(Failure::refused(StatusCode::NOT_FOUND, "not_found", message))
}
