//! The table of endpoints.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermittedCallers {
    /// The app's backend, without naming a user.
    App,
    User,
    /// The app's backend on behalf of a user, named in a header.
    AppForUser,
    /// The app's backend on behalf of a user, named in the query.
    AppForUserInQuery,
    /// Any caller, because the path contains the credential.
    Anybody,
}

pub(super) struct Row {
    /// Method and path of the call, with all aliases. `{item}`, `{request}`, `{category}`, `{topic}`, `{open}`, `{user}`, `{new}`,
    /// `{device}`, `{browser}`, `{phone}`, `{run}`, `{key}` and `{token}` are placeholders for resources that are created for the call. `{topic}` and
    /// `{open}` are topics; use `{open}` if every user of the app may make the call.
    pub(super) calls: &'static [&'static str],
    pub(super) by: &'static [PermittedCallers],
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: Option<fn() -> Value>,
    /// True if strict handling refuses unknown members of the body.
    pub(super) has_fixed_members: bool,
    pub(super) status: u16,
    /// Expected members of the answer, or of its first element if it is a list, in alphabetical order. Empty if the caller's data
    /// determines the members.
    pub(super) members: &'static [&'static str],
}

impl Row {
    /// Returns true if the path names a resource that another app or user may own.
    pub(super) fn names_a_resource(&self) -> bool {
        ["{item}", "{request}", "{category}", "{topic}", "{user}", "{browser}", "{phone}"]
            .iter()
            .any(|part| self.calls[0].contains(part))
            && !self.calls[0].starts_with("PUT /v3/users")
    }
}

const APP: &[PermittedCallers] = &[PermittedCallers::App];
const USER: &[PermittedCallers] =
    &[PermittedCallers::User, PermittedCallers::AppForUser, PermittedCallers::AppForUserInQuery];
const BOTH: &[PermittedCallers] = &[
    PermittedCallers::User,
    PermittedCallers::AppForUser,
    PermittedCallers::AppForUserInQuery,
    PermittedCallers::App,
];

const NOTIFICATION: &[&str] = &[
    "archivedAt",
    "blocks",
    "category",
    "clickedAt",
    "createdAt",
    "data",
    "icon",
    "id",
    "message",
    "requestId",
    "seenAt",
    "snoozedUntil",
    "state",
    "title",
    "url",
];
const STATUS: &[&str] = &["message", "statusCode"];
const ALL_CHANGED: &[&str] = &["message", "statusCode", "updated"];
const COUNTS: &[&str] = &["totalCount", "unreadCount", "unseenCount"];
const LIST: &[&str] = &["data", "pagination", "unreadCount", "unseenCount"];
const CATEGORY: &[&str] = &[
    "createdAt",
    "critical",
    "hideInInApp",
    "hideInPreferenceManager",
    "id",
    "identifier",
    "name",
    "order",
    "updatedAt",
];
const TOPIC: &[&str] =
    &["channels", "createdAt", "id", "identifier", "name", "open", "subscribed", "updatedAt"];
const PREFERENCE: &[&str] = &["category", "categoryId", "channelPreferences", "channels"];
/// Default values of a row: a call by the app, without a body, answered with 200.
const PLAIN: Row = Row {
    calls: &[],
    by: APP,
    headers: &[],
    body: None,
    has_fixed_members: false,
    status: 200,
    members: &[],
};

/// Builds a send to bob, because other calls count the items of ada at the same time.
fn send() -> Value {
    json!({"notification": {"title": "Hello"}, "sendTo": {"recipients": ["bob"]}})
}

pub(super) const ROWS: &[Row] = &[
    Row {
        calls: &["POST /v3/notifications"],
        body: Some(send),
        has_fixed_members: true,
        status: 202,
        members: &["requestId"],
        ..PLAIN
    },
    Row {
        calls: &["POST /v3/notifications?dryRun=true"],
        body: Some(send),
        has_fixed_members: true,
        members: &["counts", "data", "ignored", "more", "recipients"],
        ..PLAIN
    },
    Row { calls: &["GET /v3/notifications"], by: USER, members: LIST, ..PLAIN },
    Row { calls: &["GET /v3/notifications/counts"], by: USER, members: COUNTS, ..PLAIN },
    Row {
        calls: &["POST /v3/notifications/bulk"],
        by: USER,
        body: Some(|| json!({"ids": [1], "change": "unread"})),
        has_fixed_members: true,
        members: ALL_CHANGED,
        ..PLAIN
    },
    Row { calls: &["GET /v3/notifications/{item}"], by: BOTH, members: NOTIFICATION, ..PLAIN },
    Row { calls: &["DELETE /v3/notifications/{item}"], by: BOTH, members: STATUS, ..PLAIN },
    Row {
        calls: &["POST /v3/notifications/{item}/click", "PATCH /v3/notifications/{item}/click"],
        by: BOTH,
        members: NOTIFICATION,
        ..PLAIN
    },
    Row {
        calls: &[
            "PUT /v3/notifications/{item}/archive",
            "DELETE /v3/notifications/{item}/archive",
            "DELETE /v3/notifications/{item}/snooze",
        ],
        by: BOTH,
        members: NOTIFICATION,
        ..PLAIN
    },
    Row {
        calls: &["PUT /v3/notifications/{item}/snooze"],
        by: BOTH,
        body: Some(|| json!({"until": service_kit::clock::now() + std::time::Duration::from_secs(86_400)})),
        has_fixed_members: true,
        members: NOTIFICATION,
        ..PLAIN
    },
    Row { calls: &["DELETE /v3/notifications/{item}/reads"], by: BOTH, members: NOTIFICATION, ..PLAIN },
    Row { calls: &["DELETE /v3/notifications/{item}/views"], by: BOTH, members: NOTIFICATION, ..PLAIN },
    Row {
        calls: &[
            "PUT /v3/notifications/{item}/views",
            "POST /v3/notifications/{item}/views",
            "PUT /v3/notifications/{item}/reads",
            "POST /v3/notifications/{item}/reads",
        ],
        by: BOTH,
        members: NOTIFICATION,
        ..PLAIN
    },
    Row {
        calls: &["POST /v3/notifications/markAllNotificationsAsSeen", "POST /v3/markAllNotificationsAsSeen"],
        by: USER,
        members: ALL_CHANGED,
        ..PLAIN
    },
    Row {
        calls: &[
            "POST /v3/notifications/markAllNotificationsAsRead",
            "POST /v3/notifications/markAllNotificationsAsDeleted",
        ],
        by: USER,
        members: ALL_CHANGED,
        ..PLAIN
    },
    Row {
        calls: &["PUT /v3/notifications/{item}/state"],
        by: BOTH,
        body: Some(|| json!({"state": "archived"})),
        has_fixed_members: true,
        members: NOTIFICATION,
        ..PLAIN
    },
    Row { calls: &["GET /v3/profile"], by: USER, ..PLAIN },
    Row {
        calls: &["PUT /v3/profile", "PATCH /v3/profile"],
        by: USER,
        body: Some(|| json!({"city": "Łódź"})),
        ..PLAIN
    },
    Row {
        calls: &["PATCH /v3/profile"],
        by: USER,
        body: Some(|| json!([{"op": "add", "path": "/city", "value": "Łódź"}])),
        ..PLAIN
    },
    Row { calls: &["GET /v3/preferences"], by: USER, members: PREFERENCE, ..PLAIN },
    Row {
        calls: &["PATCH /v3/preferences", "PUT /v3/preferences"],
        by: USER,
        body: Some(
            || json!({"preference": [{"categoryId": "{category}", "channels": [{"channel": "email", "enabled": false}]}]}),
        ),
        has_fixed_members: true,
        members: PREFERENCE,
        ..PLAIN
    },
    Row { calls: &["GET /v3/categories"], by: BOTH, members: CATEGORY, ..PLAIN },
    Row {
        calls: &["POST /v3/categories", "POST /v3/notifications/categories"],
        body: Some(|| json!({"identifier": "{new}", "name": "New"})),
        has_fixed_members: true,
        members: CATEGORY,
        ..PLAIN
    },
    Row {
        calls: &["PUT /v3/categories/{new}", "PUT /v3/categories/orders"],
        body: Some(|| json!({"name": "Łódź", "hideInInApp": true, "order": 3})),
        has_fixed_members: true,
        members: CATEGORY,
        ..PLAIN
    },
    Row {
        calls: &["DELETE /v3/categories/{category}", "DELETE /v3/notifications/categories/{category}"],
        members: STATUS,
        ..PLAIN
    },
    Row { calls: &["GET /v3/topics", "GET /v3/topics?limit=1"], by: BOTH, members: TOPIC, ..PLAIN },
    Row {
        calls: &["PUT /v3/topics/{new}", "PUT /v3/topics/{topic}"],
        body: Some(|| json!({"name": "Łódź", "open": true})),
        has_fixed_members: true,
        members: TOPIC,
        ..PLAIN
    },
    Row { calls: &["GET /v3/topics/{topic}"], members: TOPIC, ..PLAIN },
    Row { calls: &["DELETE /v3/topics/{topic}"], members: STATUS, ..PLAIN },
    Row {
        calls: &["POST /v3/topics/{topic}/subscriptions"],
        body: Some(|| json!({"remove": ["ada", "bob"]})),
        has_fixed_members: true,
        members: &["data", "subscribed", "unsubscribed"],
        ..PLAIN
    },
    Row {
        calls: &["GET /v3/topics/{topic}/subscriptions"],
        members: &["channels", "identifier", "subscribedAt"],
        ..PLAIN
    },
    Row {
        calls: &["POST /v3/topics"],
        body: Some(|| json!({"identifier": "{new}", "name": "Łódź"})),
        has_fixed_members: true,
        members: TOPIC,
        ..PLAIN
    },
    Row {
        calls: &["PATCH /v3/topics/{topic}"],
        body: Some(|| json!({"name": "Łódź"})),
        has_fixed_members: true,
        members: TOPIC,
        ..PLAIN
    },
    Row {
        calls: &["POST /v3/topics/{topic}/users"],
        body: Some(|| json!({"users": [{"identifier": "ada", "channels": ["push"]}]})),
        has_fixed_members: true,
        members: &["data", "subscribed", "unsubscribed"],
        ..PLAIN
    },
    Row {
        calls: &["POST /v3/topics/{topic}/detachUsers"],
        body: Some(|| json!({"users": ["ada"]})),
        has_fixed_members: true,
        members: &["data", "subscribed", "unsubscribed"],
        ..PLAIN
    },
    Row {
        calls: &["PUT /v3/topics/{topic}/users/ada"],
        body: Some(|| json!({"channels": ["inApp", "push"]})),
        has_fixed_members: true,
        members: STATUS,
        ..PLAIN
    },
    Row { calls: &["GET /v3/topics/subscriptions/{user}"], ..PLAIN },
    Row {
        calls: &["GET /v3/topics/{open}/subscription"],
        by: USER,
        members: &["channels", "subscribed", "topic"],
        ..PLAIN
    },
    Row {
        calls: &["PUT /v3/topics/{open}/subscription"],
        by: USER,
        body: Some(|| json!({"channels": ["email"]})),
        has_fixed_members: true,
        members: STATUS,
        ..PLAIN
    },
    Row { calls: &["DELETE /v3/topics/{open}/subscription"], by: USER, members: STATUS, ..PLAIN },
    Row {
        calls: &["PATCH /v3/workflows/{run}"],
        body: Some(|| json!({"cancellationKey": "order-7"})),
        has_fixed_members: true,
        members: &["cancelled", "requests"],
        ..PLAIN
    },
    Row { calls: &["GET /v3/users/{user}/topics"], ..PLAIN },
    Row {
        calls: &["POST /v3/sdk/connect"],
        by: USER,
        headers: &[("X-SERVICE-DEVICE-ID", "phone")],
        body: Some(|| json!({"deviceType": "ios"})),
        has_fixed_members: true,
        members: &["app", "deviceSecret", "unreadCount", "unseenCount"],
        ..PLAIN
    },
    Row {
        calls: &["POST /v3/devices/{device}/webPushSubscription"],
        by: USER,
        body: Some(super::fixtures::subscription),
        has_fixed_members: true,
        members: STATUS,
        ..PLAIN
    },
    Row { calls: &["DELETE /v3/devices/{browser}/webPushSubscription"], by: USER, members: STATUS, ..PLAIN },
    Row { calls: &["DELETE /v3/devices/{phone}/pushToken"], by: USER, members: STATUS, ..PLAIN },
    Row {
        calls: &["POST /v3/users"],
        body: Some(|| json!({"identifier": "{new}", "profile": {"city": "Łódź"}})),
        has_fixed_members: true,
        members: &["identifier", "profile"],
        ..PLAIN
    },
    Row {
        calls: &["PUT /v3/users/{new}", "PUT /v3/users/{user}"],
        body: Some(|| json!({"city": "Łódź"})),
        members: &["identifier", "profile"],
        ..PLAIN
    },
    Row {
        calls: &["GET /v3/users/{user}"],
        members: &["createdAt", "devices", "identifier", "profile"],
        ..PLAIN
    },
    Row { calls: &["GET /v3/users", "GET /v3/users?limit=1"], members: &["data", "nextCursor"], ..PLAIN },
    Row {
        calls: &["POST /v3/users/bulk"],
        body: Some(|| json!({"users": [{"identifier": "{new}", "profile": {"city": "Łódź"}}]})),
        has_fixed_members: true,
        members: &["data"],
        ..PLAIN
    },
    Row { calls: &["DELETE /v3/users/{user}"], status: 202, members: STATUS, ..PLAIN },
    Row {
        calls: &["GET /v3/requests", "GET /v3/requests?limit=1"],
        members: &["data", "nextCursor"],
        ..PLAIN
    },
    Row {
        calls: &["GET /v3/explain?user={user}"],
        members: &["channels", "events", "nextCursor", "now", "person", "request", "sends", "verdict"],
        ..PLAIN
    },
    Row {
        calls: &["GET /v3/requests/{request}"],
        members: &[
            "acceptedAt",
            "counts",
            "recipients",
            "requestId",
            "sendAt",
            "status",
            "topics",
            "waiting",
            "warnings",
        ],
        ..PLAIN
    },
    Row {
        calls: &["GET /v3/requests/{request}/deliveries"],
        members: &["acceptedAt", "data", "nextCursor"],
        ..PLAIN
    },
    Row { calls: &["DELETE /v3/requests/{request}"], members: &["cancelled"], ..PLAIN },
    Row {
        calls: &["DELETE /v3/requests?cancellationKey={key}"],
        members: &["cancelled", "requests"],
        ..PLAIN
    },
    Row {
        calls: &[
            "GET /v3/unsubscribe/{token}",
            "POST /v3/unsubscribe/{token}",
            "GET /v3/unsubscribe/{token}/preferences",
            "POST /v3/unsubscribe/{token}/preferences",
        ],
        by: &[PermittedCallers::Anybody],
        ..PLAIN
    },
];
