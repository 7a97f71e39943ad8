//! Conversion of events to messages for endpoints. A message contains ids, states, reasons and the app's own identifier of the
//! user, but never an email address, phone number or push token.

use domain::event::{DeliverySettled, TargetSuppressed};
use domain::webhook::WebhookEvent;
use domain::{AppId, Channel, Envelope, Event, Reason, SendId, Status, Timestamp, UserNumber};
use serde_json::{Value, json};
use store::webhooks::{Listener, NewMessage, ReadItem};
use uuid::Uuid;

/// The user's identifier and the listening endpoints are not known yet.
#[derive(Clone, Debug)]
pub(crate) struct WebhookNotice {
    pub(crate) app: AppId,
    pub(crate) user: UserNumber,
    pub(crate) event: WebhookEvent,
    at: Timestamp,
    /// Deterministic id: if the same event is read or published again, its notice has the same id.
    id: Uuid,
    subject: Uuid,
    data: Value,
}

impl WebhookNotice {
    /// Returns None if the event is not reported, for example because the delivery is not in a final state.
    pub(crate) fn of_outcome(envelope: &Envelope) -> Option<WebhookNotice> {
        let send_id = envelope.send_id;
        let (event, subject, user, data) = match &envelope.event {
            Event::DeliverySettled(settled) => {
                let event = WebhookEvent::of_status(settled.status)?;
                // The user was erased, so there is no identifier to report.
                if settled.reason == Some(Reason::RecipientErased) {
                    return None;
                }
                (event, settled.delivery_id.0, settled.user, settled_data(send_id, settled))
            }
            Event::TargetSuppressed(suppressed) => (
                WebhookEvent::DeliverySuppressed,
                suppressed.delivery_id.0,
                suppressed.user,
                suppressed_data(send_id, suppressed),
            ),
            _ => return None,
        };
        let status = data["status"].as_str().unwrap_or_default();
        let id = Uuid::new_v5(&envelope.id, format!("{event} {status}").as_bytes());
        Some(WebhookNotice { app: envelope.app, user, event, at: envelope.at, id, subject, data })
    }

    pub(crate) fn of_read(app: AppId, user: UserNumber, item: ReadItem, at: Timestamp) -> WebhookNotice {
        let event = WebhookEvent::NotificationRead;
        let subject = Uuid::new_v5(&item.send_id.0, format!("{app} {}", item.id).as_bytes());
        let id = Uuid::new_v5(&subject, format!("{event} {at}").as_bytes());
        let data = json!({
            "requestId": item.send_id, "notificationId": item.id.0, "channel": Channel::InApp, "status": "read",
        });
        WebhookNotice { app, user, event, at, id, subject, data }
    }

    /// Returns None if the endpoint belongs to another app, does not subscribe to the event, or subscribed only after the event.
    pub(crate) fn message(&self, listener: &Listener, recipient: &str) -> Option<NewMessage> {
        let wants = listener.app == self.app && listener.events.contains(&self.event);
        if !wants || self.at < listener.since {
            return None;
        }
        let mut data = self.data.clone();
        data["recipient"] = recipient.into();
        let body = json!({"type": self.event, "timestamp": self.at, "data": data});
        Some(NewMessage {
            app: self.app,
            endpoint: listener.endpoint,
            id: Uuid::new_v5(&self.id, listener.endpoint.to_string().as_bytes()),
            subject: self.subject,
            event: self.event,
            user: self.user,
            body: body.to_string(),
        })
    }
}

fn settled_data(send_id: Option<SendId>, settled: &DeliverySettled) -> Value {
    let DeliverySettled { delivery_id, channel, attempt, status, reason, provider, .. } = settled;
    json!({
        "requestId": send_id, "deliveryId": delivery_id, "channel": channel, "status": status, "reason": reason,
        "attempt": attempt, "provider": provider,
    })
}

fn suppressed_data(send_id: Option<SendId>, suppressed: &TargetSuppressed) -> Value {
    let TargetSuppressed { delivery_id, channel, .. } = suppressed;
    json!({
        "requestId": send_id, "deliveryId": delivery_id, "channel": channel, "status": Status::Failed,
        "reason": Reason::TargetGone, "attempt": null, "provider": null,
    })
}
