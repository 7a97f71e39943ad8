//! `/v3/notifications/{id}/archive` and `/v3/notifications/{id}/snooze`: moves of a notification off the list, and back.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::body::kind::Time;
use domain::fields::Fields;
use domain::inbox::ItemChange;
use domain::{Problem, Timestamp};
use operations::inbox::Change;
use serde_json::Value;
use service_kit::clock;
use web::body::{Body, read_members};
use web::failure::Failure;
use web::handling::Handling;
use web::path_id::PathId;
use web::status_body::StatusBody;

use crate::access::caller::Caller;
use crate::gateway::Gateway;
use crate::inbox::item::{mark, shown};
use crate::inbox::notification::Notification;
use crate::openapi::described;
use crate::openapi::vocabulary::Id;

/// Longest time for which a notification can be snoozed.
pub const LONGEST_SNOOZE: Duration = Duration::from_secs(365 * 86_400);

/// Archives a notification.
///
/// It leaves the list and the counters. The filter `archived` lists it. A snooze of the notification ends.
#[utoipa::path(
    put,
    path = "/v3/notifications/{id}/archive",
    operation_id = "archiveNotification",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now archived.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn archive(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    mark(&gateway, &caller, id.item()?, ItemChange::Archived).await
}

/// Moves an archived notification back to the list.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}/archive",
    operation_id = "unarchiveNotification",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now on the list.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn unarchive(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    mark(&gateway, &caller, id.item()?, ItemChange::Unarchived).await
}

/// Snoozes a notification.
///
/// It leaves the list and the counters until the given time. Then it returns to its place on the list, unread and unseen. The filter
/// `snoozed` lists it meanwhile. An archived notification leaves the archive.
#[utoipa::path(
    put,
    path = "/v3/notifications/{id}/snooze",
    operation_id = "snoozeNotification",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    request_body = described::Snooze,
    responses(
        (status = 200, description = "The notification, now snoozed.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn snooze(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let until = read_snooze(body.json().await?, handling)?;
    shown(gateway.inboxes.change(&caller.caller, caller.app, id.item()?, Change::Snooze(until)).await?)
}

/// Ends the snooze of a notification. It returns to the list at once, unread and unseen.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}/snooze",
    operation_id = "unsnoozeNotification",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now on the list.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn unsnooze(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    shown(gateway.inboxes.change(&caller.caller, caller.app, id.item()?, Change::Unsnooze).await?)
}

/// Reads the member `until` of a snooze.
fn read_snooze(body: Value, handling: Handling) -> Result<Timestamp, Failure> {
    read_members(body, handling.strict, |snooze: &mut Snooze, problems| snooze.until(problems))
}

domain::body! {
    /// Time until which a notification is snoozed.
    pub(crate) struct Snooze {
        /// Time at which the notification returns to the list, at most 365 days ahead.
        required until: Until,
    }
    example {"until": "2027-01-31T09:00:00.000Z"}
}

/// A time in the future, at most a year ahead.
pub(crate) struct Until;

domain::kinds! {
    Until, () => Timestamp, read_until, Time::schema;
}

fn read_until(fields: &mut Fields, key: &'static str, problems: &mut Vec<Problem>) -> Option<Timestamp> {
    let until = fields.time(key, problems)?;
    let now = clock::now();
    let problem = if until <= now {
        Problem::new("until", "past", "until must be in the future")
    } else if until > now + LONGEST_SNOOZE {
        Problem::new("until", "too_far", "until must be at most 365 days ahead")
    } else {
        return Some(until);
    };
    problems.push(problem);
    None
}
