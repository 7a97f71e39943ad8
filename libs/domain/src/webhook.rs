//! Events of status webhooks.

use crate::Status;
use crate::text_enum::text_enum;

text_enum! {
    /// An event that a webhook reports to an app's backend.
    WebhookEvent {
        /// A provider accepted the message of a delivery.
        DeliverySent = "delivery.sent",
        /// A receipt confirms that the message of a delivery arrived.
        DeliveryDelivered = "delivery.delivered",
        /// A delivery ended without being sent. The status of the delivery shows the cause.
        DeliveryFailed = "delivery.failed",
        /// A target is dead and is no longer used.
        DeliverySuppressed = "delivery.suppressed",
        /// A user read an inbox item.
        NotificationRead = "notification.read",
    }
}

impl WebhookEvent {
    /// Returns the event for a delivery with this status; None if the delivery is still in progress. Every delivery that ended
    /// without being sent counts as failed: it was refused, expired, cancelled or skipped, or its outcome is unknown. A parked
    /// delivery counts as failed too, although a redrive may still send it.
    #[must_use]
    pub fn of_status(status: Status) -> Option<WebhookEvent> {
        match status {
            Status::Queued | Status::Sending | Status::Retrying => None,
            Status::Sent => Some(WebhookEvent::DeliverySent),
            Status::Delivered => Some(WebhookEvent::DeliveryDelivered),
            Status::Failed
            | Status::Unknown
            | Status::Skipped
            | Status::Parked
            | Status::Cancelled
            | Status::Expired => Some(WebhookEvent::DeliveryFailed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_delivery_is_an_event_and_no_earlier_status_is() {
        for &status in Status::ALL {
            assert_eq!(WebhookEvent::of_status(status).is_some(), status.is_terminal(), "{status}");
        }
    }
}
