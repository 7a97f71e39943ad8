//! Groups of the store's methods. Each folder of this crate has one type here, its face. The methods of the face run the SQL
//! statements in the folder.

use crate::Store;

/// Declares the face of each folder, and the method of [`Store`] that returns the face.
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
    /// The identity of the database, the streams of its log, the audit log, encrypted columns, and failure counts of
    /// messages.
    Database = database;
    /// Apps, their keys and switches, providers and templates.
    Control = control;
    /// Users, devices, preferences, categories and topics.
    Directory = directory;
    /// Sends: idempotency keys, plans, and the status of requests that the API shows.
    Sends = sends;
    /// The ledger: claims, settlements, receipts, timers, suppressions and attachments.
    Deliveries = deliveries;
    /// Items and counters of inboxes, and the projection that writes them.
    Inbox = inbox;
    /// Webhook endpoints, and messages for them.
    Webhooks = webhooks;
    /// Erasure of users.
    Erasures = erasure;
    /// Restoring a database from a backup and the log.
    Recovery = recovery;
}
