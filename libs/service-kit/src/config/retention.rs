use std::time::Duration;

use super::settings::Settings;
use super::{DAY, Delivery, Streams};

#[derive(Clone, Debug)]
pub struct Sends {
    pub keep: Duration,
}

#[derive(Clone, Debug)]
pub struct Inbox {
    pub keep: Duration,
    pub keep_per_user: u32,
}

impl Sends {
    pub(super) fn read(settings: &mut Settings, streams: &Streams, delivery: &Delivery) -> Sends {
        let keep = settings.duration("sends.keep", 30 * DAY, DAY..=3_650 * DAY);
        let least = Sends::least(streams, delivery);
        if keep < least && settings.is_set("sends.keep") {
            let days = keep.as_secs() / DAY.as_secs();
            settings.refuse(
                "sends.keep",
                Some(format!("{days}d")),
                "must be at least a day longer than streams.retention and delivery.receipt_wait; keep sends longer, or shorten these",
            );
        }
        Sends { keep: keep.max(least) }
    }

    /// A day longer than the log keeps its messages, and than receipts may take.
    #[must_use]
    pub fn least(streams: &Streams, delivery: &Delivery) -> Duration {
        streams.retention.max(delivery.receipt_wait) + DAY
    }
}

impl Inbox {
    pub(super) fn read(settings: &mut Settings) -> Inbox {
        Inbox {
            keep: settings.duration("inbox.keep", 365 * DAY, DAY..=3_650 * DAY),
            keep_per_user: settings.number("inbox.keep_per_user", 1_000, 1..=1_000_000),
        }
    }
}
