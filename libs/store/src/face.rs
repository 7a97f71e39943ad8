//! Faces of the store: each folder of this crate has one type here, whose methods run the SQL statements in the folder.

use crate::Store;

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
    /// The identity of the database, the streams of its log, the audit log, encrypted columns, and failure counts of messages.
    Database = database;
    Control = control;
    Directory = directory;
    Sends = sends;
    Deliveries = deliveries;
    Inbox = inbox;
    Webhooks = webhooks;
    Erasures = erasure;
    Recovery = recovery;
}
