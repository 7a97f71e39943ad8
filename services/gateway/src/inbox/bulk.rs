//! `POST /v3/notifications/bulk`: one change to several notifications.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::body::kind::{As, Id, List, Text};
use domain::body::{json, named};
use domain::inbox::ItemChange;
use domain::{ItemId, Problem};
use operations::inbox::Change;
use serde_json::Value;
use web::body::{Body, read_members};
use web::failure::Failure;
use web::handling::Handling;
use web::status_body::StatusBody;

use crate::access::caller::UserCaller;
use crate::gateway::Gateway;
use crate::inbox::place::Until;
use crate::inbox::whole::{Updated, answer};
use crate::openapi::described;

/// Maximum number of notifications of a call.
pub(crate) const MAX_IDS: usize = 100;
/// Maximum length of the name of a change, in bytes.
const LONGEST_CHANGE: usize = 64;
const DONE: &str = "the notifications were changed";
/// Name of the change that has the member `until`.
const SNOOZED: &str = "snoozed";
const UNSNOOZED: &str = "unsnoozed";
const CHANGES: [(&str, ItemChange); 7] = [
    ("seen", ItemChange::Seen),
    ("unseen", ItemChange::Unseen),
    ("read", ItemChange::Read),
    ("unread", ItemChange::Unread),
    ("deleted", ItemChange::Deleted),
    ("archived", ItemChange::Archived),
    ("unarchived", ItemChange::Unarchived),
];

domain::body! {
    /// One change to several notifications.
    pub(crate) struct BulkChange {
        /// Ids of notifications; at most 100.
        worded ids: As<Ids, List<Id, MAX_IDS>>,
        worded change: As<ChangeName, Text<LONGEST_CHANGE>>,
        /// Required for `snoozed`: time at which the notifications return to the list, at most 365 days ahead. Only for `snoozed`.
        conditional until: Until,
    }
    example {"ids": [4096, 4097], "change": "read"}
}

domain::schemas! {
    Ids = |schemas| {
        let mut schema = List::<Id, MAX_IDS>::schema(schemas);
        schema["minItems"] = 1.into();
        schema
    };
    ChangeName = |schemas| named(schemas, "ItemChange", |_| {
        let names: Vec<_> = CHANGES.iter().map(|(name, _)| *name).chain([SNOOZED, UNSNOOZED]).collect();
        json!({"description": "A change to a notification.", "type": "string", "enum": names})
    });
}

/// Makes the same change to several notifications.
///
/// Ids that are not in the user's inbox are ignored. `updated` is the number of ids that are.
#[utoipa::path(
    post,
    path = "/v3/notifications/bulk",
    operation_id = "changeNotifications",
    tag = "inbox",
    security(("user" = [])),
    request_body = described::BulkChange,
    responses(
        (status = 200, description = "The notifications are changed.", body = Updated),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn change(
    caller: UserCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let (ids, change) = read(body.json().await?, handling)?;
    Ok(answer(DONE, gateway.inboxes.change_many(&caller.caller, &ids, change).await?))
}

/// Reads the members `ids` and `change`, and `until` of a snooze. A repeated id counts once.
fn read(body: Value, handling: Handling) -> Result<(Vec<ItemId>, Change), Failure> {
    read_members(body, handling.strict, |body: &mut BulkChange, problems| {
        body.fields.require("ids", problems);
        body.fields.require("change", problems);
        let ids = body.ids(problems).and_then(|ids| read_ids(&ids, problems));
        let change = body.change(problems);
        ids.zip(change.and_then(|name| read_change(&name, body, problems)))
    })
}

fn read_ids(ids: &[Value], problems: &mut Vec<Problem>) -> Option<Vec<ItemId>> {
    if ids.is_empty() || ids.len() > MAX_IDS {
        let message = format!("ids must have 1 to {MAX_IDS} ids, not {}", ids.len());
        problems.push(Problem::new("ids", "invalid_length", message));
        return None;
    }
    let mut read = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        match id.as_i64().filter(|id| (0..1 << 53).contains(id)) {
            Some(id) => read.push(ItemId(id)),
            None => {
                let field = format!("ids[{index}]");
                let message = format!("{field} must be the id of a notification, a whole number");
                problems.push(Problem::new(field, "invalid_type", message));
            }
        }
    }
    read.sort_unstable();
    read.dedup();
    Some(read)
}

fn read_change(name: &str, body: &mut BulkChange, problems: &mut Vec<Problem>) -> Option<Change> {
    match name {
        SNOOZED => {
            body.fields.require("until", problems);
            return body.until(problems).map(Change::Snooze);
        }
        UNSNOOZED => return Some(Change::Unsnooze),
        _ => {}
    }
    let change = CHANGES.iter().find(|(known, _)| *known == name).map(|(_, change)| Change::Mark(*change));
    if change.is_none() {
        let names = CHANGES.map(|(name, _)| name).join(", ");
        let message = format!("change must be one of {names}, {SNOOZED}, {UNSNOOZED}");
        problems.push(Problem::new("change", "unknown_value", message));
    }
    change
}
