//! The faces of the store: one per room, each with the room's statements as methods.

use crate::Store;

/// Declares a face for each room, and the method of [`Store`] that returns it.
macro_rules! faces {
    ($($(#[$doc:meta])* $face:ident = $method:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $face<'store>(pub(crate) &'store Store);
        )*

        impl Store {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $method(&self) -> $face<'_> {
                    $face(self)
                }
            )*
        }
    };
}

faces! {
    /// Identity and streams of the installation, the audit log, sealed columns, and failure counts of messages.
    Database = database;
    /// Apps, their keys and switches, providers and templates.
    Control = control;
    /// Users, devices, preferences and categories.
    Directory = directory;
    /// Sends: idempotency keys, plans and what callers read about requests.
    Sends = sends;
    /// The ledger: claims, settlements, receipts, timers, suppressions and attachments.
    Deliveries = deliveries;
    /// Items and counters of inboxes, and their projection.
    Inbox = inbox;
    /// Webhook endpoints, and messages for them.
    Webhooks = webhooks;
    /// Erasure of users.
    Erasures = erasure;
    /// Restoring a database from a backup and the log.
    Recovery = recovery;
}
