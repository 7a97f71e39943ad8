//! Sources that the feeds of a gateway read and share.

use std::sync::Arc;

use event_log::EventLog;
use operations::Inboxes;
use operations::inbox::Positions;
use service_kit::clock;
use store::Store;
use tokio::sync::watch;
use web::admission::Admission;

use crate::access::Access;

/// The log, the database, and the settings of apps.
pub(crate) struct Sources {
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) positions: Positions,
    pub(crate) access: Arc<Access>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) partitions: u32,
}

/// Tells the feeds whether the gateway has connections.
#[derive(Default)]
pub(crate) struct Usage {
    /// Every connection has a clone.
    open: Arc<()>,
    opened: watch::Sender<()>,
}

impl Usage {
    /// Notes that a connection is opened. It lasts until the value is dropped.
    pub(crate) fn begin(&self) -> Arc<()> {
        let open = Arc::clone(&self.open);
        self.opened.send_replace(());
        open
    }

    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    /// Returns a channel that changes when a connection is opened.
    pub(crate) fn opened(&self) -> watch::Receiver<()> {
        self.opened.subscribe()
    }
}

/// Returns a random number of seconds up to `most`, so that clients do not all connect again at once.
pub(crate) fn jittered(most: u64) -> u64 {
    let seconds = clock::random() * (most + 1) as f64;
    (seconds as u64).min(most)
}
