//! `/v3/devices/{deviceId}`: the web-push subscription and the push token of a device.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use credentials::vapid;
use domain::web_push::parse_subscription;
use operations::{Object, OperationError, devices};
use web::body::Body;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::UserCaller;
use crate::access::device_secret::device_of;
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
    let device = device_of(&request, &caller, &device_id)?;
    devices::subscribe(&gateway.operations, &caller.caller, device, &subscription).await?;
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
    let device = device_of(&request, &caller, &device_id)?;
    devices::unsubscribe(&gateway.operations, &caller.caller, device).await?;
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
    let device = device_of(&request, &caller, &device_id)?;
    let removed = devices::remove_push_token(&gateway.operations, &caller.caller, device).await;
    removed.map_err(|error| match error {
        OperationError::NotFound(Object::PushToken) => Failure::not_found("the device has no push token"),
        error => error.into(),
    })?;
    Ok(status_body(StatusCode::OK, "the push token was removed"))
}
