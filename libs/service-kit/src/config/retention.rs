//! `[sends]` and `[inbox]`: how long data is kept.

use std::time::Duration;

use super::settings::Settings;
use super::{DAY, Delivery, Streams};

/// Retention of sends.
#[derive(Clone, Debug)]
pub struct Sends {
    /// Time for which a send is kept after it was due: its request, its deliveries and their attempts. It is at least
    /// [`Sends::least`].
    pub keep: Duration,
}

/// Retention of inbox items.
#[derive(Clone, Debug)]
pub struct Inbox {
    /// Time for which an inbox keeps an item, 1 day to 3,650 days.
    pub keep: Duration,
    /// Maximum number of items in the inbox of one user, 1 to 1,000,000. The newest are kept.
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

    /// Shortest time for which a send may be kept: a day longer than the log keeps its messages, and than receipts may take.
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
