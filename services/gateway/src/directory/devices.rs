//! `/v3/devices/{deviceId}/webPushSubscription`: where browsers take web push.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use domain::web_push::parse_subscription;
use service_kit::vapid;

use crate::access::caller::UserCaller;
use crate::gateway::{Gateway, database};
use crate::http::body::Body;
use crate::http::failure::{Failure, sound};
use crate::http::handling::Handling;
use crate::http::path_id::PathId;
use crate::http::status_body::{StatusBody, status_body};
use crate::openapi::subscription::Subscription;
use crate::openapi::vocabulary::Identifier;

/// Stores a browser's subscription, in place of the one that the device had.
///
/// The body is what the browser's `PushSubscription` says as JSON. Its endpoint must be at a push service that the
/// installation knows. An endpoint belongs to one user of an app: the last that sent it. User and device are created
/// if missing.
#[utoipa::path(
    post,
    path = "/v3/devices/{deviceId}/webPushSubscription",
    operation_id = "setWebPushSubscription",
    tag = "devices",
    security(("user" = [])),
    params(("deviceId" = Identifier, Path, description = "What the client calls the device.")),
    request_body = Subscription,
    responses((status = 200, description = "It is stored.", body = StatusBody)),
)]
pub(crate) async fn subscribe(
    caller: UserCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let device_id = id.device()?;
    let mut problems = Vec::new();
    let hosts = &gateway.push_hosts;
    let subscription = parse_subscription(body, hosts, vapid::is_on_curve, handling.strict, &mut problems);
    let subscription = sound(subscription, problems)?;
    database(gateway.store.subscribe(caller.app.id, &caller.user, &device_id, &subscription)).await?;
    Ok(status_body(StatusCode::OK, "the subscription was stored"))
}

/// Removes the subscription of a device.
#[utoipa::path(
    delete,
    path = "/v3/devices/{deviceId}/webPushSubscription",
    operation_id = "deleteWebPushSubscription",
    tag = "devices",
    security(("user" = [])),
    params(("deviceId" = Identifier, Path, description = "What the client calls the device.")),
    responses((status = 200, description = "It is gone.", body = StatusBody)),
)]
pub(crate) async fn unsubscribe(
    caller: UserCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let device_id = id.device()?;
    match database(gateway.store.unsubscribe(caller.app.id, &caller.user, &device_id)).await? {
        true => Ok(status_body(StatusCode::OK, "the subscription was removed")),
        false => Err(Failure::not_found("no such subscription")),
    }
}
