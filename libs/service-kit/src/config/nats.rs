use std::path::PathBuf;

use super::settings::Settings;
use crate::ServerUrl;

#[derive(Clone, Debug)]
pub struct Nats {
    pub url: Option<ServerUrl>,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub credentials_file: Option<PathBuf>,
    pub replicas: usize,
    /// True if the configuration sets `replicas`; `tidings migrate` then changes streams that differ.
    pub replicas_are_set: bool,
    pub max_messages: i64,
    pub max_store: u64,
    /// True if the configuration sets `max_messages`; `tidings migrate` then changes streams that differ.
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
