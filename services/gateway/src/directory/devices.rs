//! `/v3/devices/{deviceId}`: the web-push subscription and the push token of a device.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use credentials::vapid;
use domain::profile::{Author, Refusal};
use domain::web_push::parse_subscription;
use web::body::Body;
use web::database::database;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::UserCaller;
use crate::access::device_secret;
use crate::gateway::Gateway;
use crate::openapi::described::Subscription;
use crate::openapi::vocabulary::Identifier;

/// Stores the web-push subscription of a device. It replaces the device's previous subscription.
///
/// The body is the browser's `PushSubscription` as JSON. Its endpoint must be at a push service that the service's
/// configuration allows. Within an app, an endpoint belongs only to the user who sent it last. A missing user or device is
/// created. If the app guards addresses (`address-keys=guarded`), a caller with only the public key needs the device's secret,
/// and the endpoint must not belong to another device.
#[utoipa::path(
    post,
    path = "/v3/devices/{deviceId}/webPushSubscription",
    operation_id = "setWebPushSubscription",
    tag = "devices",
    security(("user" = [])),
    params(
        ("deviceId" = Identifier, Path, description = "The identifier that the client chose for the device."),
        ("DEVICE-SECRET" = Option<String>, Header, description = "The device's secret. Only callers with just the public key need it."),
    ),
    request_body = Subscription,
    responses((status = 200, description = "The subscription is stored.", body = StatusBody)),
)]
pub(crate) async fn subscribe(
    caller: UserCaller,
    gateway: Data<Gateway>,
    request: HttpRequest,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let device_id = id.device()?;
    let mut problems = Vec::new();
    let hosts = &gateway.push_hosts;
    let subscription = parse_subscription(body, hosts, vapid::is_on_curve, handling.strict, &mut problems);
    let subscription = valid_or_problems(subscription, problems)?;
    let (store, app, user) = (&gateway.store, caller.app.id, &caller.user);
    match gateway.device_secret(&request, &caller, &device_id).await? {
        None => {
            database(store.directory().subscribe(app, caller.writer(), &device_id, &subscription)).await?;
        }
        Some(secret) => {
            let device = (device_id.as_str(), &secret[..]);
            database(store.directory().subscribe_unproven(app, user, device, &subscription)).await?;
        }
    }
    Ok(status_body(StatusCode::OK, "the subscription was stored"))
}

/// Removes the web-push subscription of a device.
#[utoipa::path(
    delete,
    path = "/v3/devices/{deviceId}/webPushSubscription",
    operation_id = "deleteWebPushSubscription",
    tag = "devices",
    security(("user" = [])),
    params(
        ("deviceId" = Identifier, Path, description = "The identifier that the client chose for the device."),
        ("DEVICE-SECRET" = Option<String>, Header, description = "The device's secret. Only callers with just the public key need it."),
    ),
    responses((status = 200, description = "The subscription is removed.", body = StatusBody)),
)]
pub(crate) async fn unsubscribe(
    caller: UserCaller,
    gateway: Data<Gateway>,
    request: HttpRequest,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let device_id = id.device()?;
    let (store, app, user) = (&gateway.store, caller.app.id, &caller.user);
    let removed = match gateway.device_secret(&request, &caller, &device_id).await? {
        None => database(store.directory().unsubscribe(app, caller.writer(), &device_id)).await?,
        Some(secret) => {
            database(store.directory().unsubscribe_unproven(app, user, (&device_id, &secret))).await?
        }
    };
    if !removed {
        return Err(Failure::not_found("no such subscription"));
    }
    Ok(status_body(StatusCode::OK, "the subscription was removed"))
}

/// Removes the push token of a device, for example at sign-out.
///
/// The token is removed from the user's profile. The tokens of other devices stay.
#[utoipa::path(
    delete,
    path = "/v3/devices/{deviceId}/pushToken",
    operation_id = "deletePushToken",
    tag = "devices",
    security(("user" = [])),
    params(
        ("deviceId" = Identifier, Path, description = "The identifier that the client chose for the device."),
        ("DEVICE-SECRET" = Option<String>, Header, description = "The device's secret. Only callers with just the public key need it."),
    ),
    responses((status = 200, description = "The push token is removed.", body = StatusBody)),
)]
pub(crate) async fn remove_push_token(
    caller: UserCaller,
    gateway: Data<Gateway>,
    request: HttpRequest,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let device_id = id.device()?;
    let secret = gateway.device_secret(&request, &caller, &device_id).await?;
    let secret = secret.as_ref().map(|secret| &secret[..]);
    let removing =
        gateway.store.directory().remove_push_token(caller.app.id, caller.writer(), &device_id, secret);
    if !database(removing).await? {
        return Err(Failure::not_found("the device has no push token"));
    }
    Ok(status_body(StatusCode::OK, "the push token was removed"))
}

impl Gateway {
    /// Verifies the device's secret and returns its digest if the caller is unproven, that is, if the app guards addresses and
    /// the caller has only the public key. 403 if the secret is missing. Returns None for all other callers.
    async fn device_secret(
        &self,
        request: &HttpRequest,
        caller: &UserCaller,
        device_id: &str,
    ) -> Result<Option<[u8; 32]>, Failure> {
        if caller.author() != Author::Unproven {
            return Ok(None);
        }
        let secret = device_secret::verify(&self.store, request, caller, device_id).await?;
        Ok(Some(secret.ok_or(Refusal::AddressGuarded)?))
    }
}
