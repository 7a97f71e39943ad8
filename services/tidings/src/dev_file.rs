//! `dev.json`: addresses and credentials for programs that use a running `tidings up`.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "development")]
use crate::private_file;

const NAME: &str = "dev.json";

/// The file exists only while `tidings up` is ready.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DevFile {
    /// Origin of the API, without `/v3` and without a trailing slash.
    pub(crate) api: String,
    /// URL of the demo page.
    #[serde(default)]
    pub(crate) shop: String,
    /// One-time link that signs the demo's operator in to the console.
    #[serde(default)]
    pub(crate) console: String,
    pub(crate) metrics: String,
    pub(crate) outbox: String,
    /// Origin of the stand-in for the browsers' push service.
    pub(crate) push_service: String,
    pub(crate) app_id: String,
    pub(crate) api_key: String,
    pub(crate) api_secret: String,
    /// Prefix of the credential headers.
    pub(crate) header_prefix: String,
    /// `postgres://…`, with its password.
    pub(crate) database_url: String,
    /// `nats://…`
    pub(crate) nats_url: String,
    /// Documents for `tidings provider set`, with the secrets of the stand-ins.
    #[serde(default)]
    pub(crate) providers: Vec<Value>,
}

impl DevFile {
    /// Writes the file atomically.
    #[cfg(feature = "development")]
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        private_file::write(&directory.join(NAME), &serde_json::to_string_pretty(self)?)
    }

    /// Returns None if no `tidings up` is ready.
    pub(crate) fn read(directory: &Path) -> anyhow::Result<Option<DevFile>> {
        let path = directory.join(NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let file = serde_json::from_str(&text);
        file.map(Some).with_context(|| format!("{} is not a file of `tidings up`", path.display()))
    }

    #[cfg(feature = "development")]
    pub(crate) fn remove(directory: &Path) -> anyhow::Result<()> {
        let path = directory.join(NAME);
        private_file::remove(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}
