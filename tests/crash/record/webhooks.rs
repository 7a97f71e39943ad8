//! Webhooks that the apps' endpoints accepted.

use std::path::Path;

use domain::webhook::WebhookEvent;
use serde::Deserialize;
use uuid::Uuid;

use crate::record::{Subject, Webhook};

/// A line of the file of accepted webhooks.
#[derive(Deserialize)]
struct Line {
    id: String,
    /// Path of the endpoint: a slash and the app's id.
    path: String,
    body: Body,
}

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "type")]
    event: WebhookEvent,
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    request_id: Uuid,
    delivery_id: Option<Uuid>,
    notification_id: Option<i64>,
    recipient: String,
    status: String,
    reason: Option<String>,
}

/// Reads all accepted calls, in order.
pub(super) fn read(list: &Path) -> Vec<Webhook> {
    let text = std::fs::read_to_string(list).unwrap();
    text.lines().map(|line| webhook(serde_json::from_str(line).unwrap())).collect()
}

fn webhook(Line { id, path, body }: Line) -> Webhook {
    let Body { event, data } = body;
    let Data { request_id, delivery_id, notification_id, recipient, status, reason } = data;
    let delivery = delivery_id.map(Subject::Delivery);
    Webhook {
        id,
        app: path.trim_start_matches('/').parse().unwrap(),
        event,
        subject: delivery.or(notification_id.map(Subject::Item)).expect("a webhook has a subject"),
        request: request_id,
        recipient,
        status,
        reason,
    }
}
