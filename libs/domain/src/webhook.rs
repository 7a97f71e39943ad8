use crate::Status;
use crate::text_enum::text_enum;

text_enum! {
    WebhookEvent {
        DeliverySent = "delivery.sent",
        DeliveryDelivered = "delivery.delivered",
        /// Ended without being sent. The status of the delivery shows the cause.
        DeliveryFailed = "delivery.failed",
        /// A target is dead and is no longer used.
        DeliverySuppressed = "delivery.suppressed",
        NotificationRead = "notification.read",
    }
}

impl WebhookEvent {
    /// None if the delivery is still in progress. Every delivery that ended without being sent counts as failed, as does a parked one,
    /// although a redrive may still send it.
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
