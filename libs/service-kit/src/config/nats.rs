//! `[nats]`.

use std::path::PathBuf;

use super::settings::Settings;
use crate::ServerUrl;

/// Address of NATS, credentials and stream limits.
#[derive(Clone, Debug)]
pub struct Nats {
    /// One or several URLs (`nats://…` or `tls://…`), separated by commas. If it is not set, `NATS_URL` applies.
    pub url: Option<ServerUrl>,
    /// File with the certificates (PEM) of the authorities that may sign the server's certificate. If it is not set, the
    /// authorities of the operating system apply.
    pub ca_file: Option<PathBuf>,
    /// File with the certificate (PEM) of this client. `key_file` must be set too.
    pub cert_file: Option<PathBuf>,
    /// File with the private key (PEM) for the certificate in `cert_file`.
    pub key_file: Option<PathBuf>,
    /// File with the JWT and the seed of a NATS user (`.creds`).
    pub credentials_file: Option<PathBuf>,
    /// Number of copies of every stream, 1 to 5.
    pub replicas: usize,
    /// True if the configuration sets `replicas`. `tidings migrate` then changes streams that have a different number of copies.
    pub replicas_are_set: bool,
    /// Maximum number of messages in a stream. A full stream refuses further messages.
    pub max_messages: i64,
    /// Number of bytes that all streams together may use, counting one copy of each. 0 means the number that `tidings migrate`
    /// found.
    pub max_store: u64,
    /// True if the configuration sets `max_messages`. `tidings migrate` then changes streams that have a different limit.
    pub max_messages_are_set: bool,
}

impl Nats {
    pub(super) fn read(settings: &mut Settings) -> Nats {
        let nats = Nats {
            url: settings.url("nats.url", &["nats", "tls"]),
            ca_file: settings.path("nats.ca_file"),
            cert_file: settings.path("nats.cert_file"),
            key_file: settings.path("nats.key_file"),
            credentials_file: settings.path("nats.credentials_file"),
            replicas: settings.number("nats.replicas", 1, 1..=5),
            replicas_are_set: settings.is_set("nats.replicas"),
            max_messages: settings.number("nats.max_messages", 10_000_000, 1_000..=1_000_000_000),
            max_store: settings.number("nats.max_store", 0, 0..=1 << 50),
            max_messages_are_set: settings.is_set("nats.max_messages"),
        };
        let alone = match (&nats.cert_file, &nats.key_file) {
            (Some(_), None) => Some(("nats.cert_file", "nats.key_file")),
            (None, Some(_)) => Some(("nats.key_file", "nats.cert_file")),
            _ => None,
        };
        if let Some((key, other)) = alone {
            settings.refuse(key, None, &format!("has no effect alone: set {other} too"));
        }
        nats
    }
}
