//! Webhooks that the apps' endpoints received.

use std::collections::{BTreeMap, BTreeSet};

use domain::webhook::WebhookEvent;
use uuid::Uuid;

use crate::record::{Delivery, Record, Subject, Webhook};

/// Content of a webhook without its id: subject, event and status.
type ReportedWebhook<'r> = (Subject, WebhookEvent, &'r str);

fn reported(webhook: &Webhook) -> ReportedWebhook<'_> {
    (webhook.subject, webhook.event, &webhook.status)
}

/// The app's endpoint receives a webhook for every final status, every dead target and every read item, and no other webhook.
pub(crate) fn everything_is_reported(record: &Record) -> Vec<String> {
    let taken: BTreeSet<ReportedWebhook<'_>> = record.webhooks.iter().map(reported).collect();
    let to_be_reported = to_be_reported(record);
    let unreported = to_be_reported.difference(&taken);
    let mut wrong: Vec<String> =
        unreported.map(|reported| format!("missing webhook: {reported:?}")).collect();
    let is_known = |webhook: &Webhook| {
        let (app, user, send) = match webhook.subject {
            Subject::Delivery(id) => {
                let Delivery { app, user, send, .. } = record.tables.deliveries.get(&id)?;
                (app.0, user, send)
            }
            Subject::Item(id) => {
                let item = record.tables.items.get(&id)?;
                (item.app, &item.user, &item.send)
            }
        };
        let (_, name) = record.tables.users.get(user)?;
        let is_right = (app, name, send) == (webhook.app.0, &webhook.recipient, &webhook.request)
            && has_reason(record, webhook);
        // A webhook about a read item is right even if the user marked the item as unread later.
        Some(
            is_right
                && (webhook.event == WebhookEvent::NotificationRead
                    || to_be_reported.contains(&reported(webhook))),
        )
    };
    let foreign = record.webhooks.iter().filter(|webhook| is_known(webhook) != Some(true));
    wrong.extend(foreign.map(|webhook| format!("webhook without a reason: {webhook:?}")));
    wrong
}

/// Webhooks that the endpoints must have received by the end.
fn to_be_reported(record: &Record) -> BTreeSet<ReportedWebhook<'_>> {
    let mut all = BTreeSet::new();
    for (id, outcomes) in &record.log.outcomes {
        for outcome in outcomes {
            let event = WebhookEvent::of_status(outcome.status);
            all.extend(event.map(|event| (Subject::Delivery(*id), event, outcome.status.as_str())));
        }
    }
    let suppressed = record.log.suppressed.iter();
    all.extend(suppressed.map(|id| (Subject::Delivery(*id), WebhookEvent::DeliverySuppressed, "failed")));
    let read = record.tables.items.iter().filter(|(_, item)| item.clicked_at.is_some());
    let read = read.filter(|(_, item)| item.deleted_at.is_none());
    all.extend(read.map(|(id, _)| (Subject::Item(*id), WebhookEvent::NotificationRead, "read")));
    all
}

/// Returns true if the webhook gives the same reason as the outcome event in the log.
fn has_reason(record: &Record, webhook: &Webhook) -> bool {
    match webhook.subject {
        Subject::Item(_) => webhook.reason.is_none(),
        Subject::Delivery(_) if webhook.event == WebhookEvent::DeliverySuppressed => {
            webhook.reason.as_deref() == Some("target_gone")
        }
        Subject::Delivery(id) => record
            .log
            .outcomes
            .get(&id)
            .into_iter()
            .flatten()
            .any(|outcome| outcome.status.as_str() == webhook.status && outcome.reason == webhook.reason),
    }
}

/// A repeated webhook has the id of the first one, and the webhooks of a delivery arrive in the order of its outcomes.
pub(crate) fn each_delivery_is_in_order(record: &Record) -> Vec<String> {
    let mut ids: BTreeMap<ReportedWebhook<'_>, BTreeSet<&str>> = BTreeMap::new();
    let mut by_id: BTreeMap<&str, BTreeSet<ReportedWebhook<'_>>> = BTreeMap::new();
    let mut firsts: BTreeMap<Uuid, Vec<(WebhookEvent, &str)>> = BTreeMap::new();
    for webhook in &record.webhooks {
        let reported = reported(webhook);
        by_id.entry(&webhook.id).or_default().insert(reported);
        // Skip items: each time an item is marked as read, a new webhook with a new id reports it.
        let Subject::Delivery(id) = webhook.subject else { continue };
        let ids = ids.entry(reported).or_default();
        if ids.is_empty() {
            firsts.entry(id).or_default().push((reported.1, reported.2));
        }
        ids.insert(&webhook.id);
    }
    let mut wrong: Vec<String> = ids
        .iter()
        .filter(|(_, ids)| ids.len() > 1)
        .map(|(reported, ids)| format!("{reported:?} came under several ids: {ids:?}"))
        .collect();
    let ambiguous = by_id.iter().filter(|(_, webhooks)| webhooks.len() > 1);
    wrong.extend(ambiguous.map(|(id, webhooks)| format!("the id {id} is shared by {webhooks:?}")));
    for (id, mut reported) in firsts {
        // `everything_is_reported` finds missing and additional webhooks. Here only the order counts.
        let mut in_log = in_log(record, id);
        in_log.retain(|one| reported.contains(one));
        reported.retain(|one| in_log.contains(one));
        if reported != in_log {
            wrong.push(format!("{id}: webhooks came in the order {reported:?}, the log has {in_log:?}"));
        }
    }
    wrong
}

/// Expected webhooks about a delivery, in order. The webhook about its dead target comes last.
fn in_log(record: &Record, id: Uuid) -> Vec<(WebhookEvent, &str)> {
    let mut all = Vec::new();
    for outcome in record.log.outcomes.get(&id).into_iter().flatten() {
        if let Some(event) = WebhookEvent::of_status(outcome.status)
            && !all.contains(&(event, outcome.status.as_str()))
        {
            all.push((event, outcome.status.as_str()));
        }
    }
    let is_suppressed = record.log.suppressed.contains(&id);
    all.extend(is_suppressed.then_some((WebhookEvent::DeliverySuppressed, "failed")));
    all
}
