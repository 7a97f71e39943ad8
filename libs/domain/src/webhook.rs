//! Status webhooks: what an app's backend can be told.

use crate::Status;
use crate::text_enum::text_enum;

text_enum! {
    /// Something that an app's backend can be told.
    WebhookEvent {
        /// A provider took a delivery.
        DeliverySent = "delivery.sent",
        /// A receipt says that a delivery arrived.
        DeliveryDelivered = "delivery.delivered",
        /// A delivery ended otherwise; its status says how.
        DeliveryFailed = "delivery.failed",
        /// A target was found dead, and is not used any more.
        DeliverySuppressed = "delivery.suppressed",
        /// A person read an item of the inbox.
        NotificationRead = "notification.read",
    }
}

impl WebhookEvent {
    /// What is told of a delivery that settled so; nothing while it goes on. What ended without being sent counts as
    /// failed: refused, parked after the last retry (and sent all the same, where it is redriven), expired, cancelled,
    /// skipped in the end, or unknown.
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
    fn every_end_of_a_delivery_is_told_and_nothing_before_it() {
        for &status in Status::ALL {
            assert_eq!(WebhookEvent::of_status(status).is_some(), status.is_terminal(), "{status}");
        }
    }
}
