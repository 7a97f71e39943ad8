//! SHA-256 digests, which messages contain in place of values that must not be in the log.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Serialized as unpadded URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| "not base64")?;
        bytes.try_into().map(Digest).map_err(|_| "not 32 bytes")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        URL_SAFE_NO_PAD.encode(digest.0)
    }
}
