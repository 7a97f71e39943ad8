//! A browser with a subscription: its keys, and the decryption of messages to it (RFC 8291).

use std::fmt;

use anyhow::anyhow;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const SALT: usize = 16;
const POINT: usize = 65;
const UNCOMPRESSED: u8 = 4;
/// Minimum record size in bytes (RFC 8188, section 2): one byte of content, the delimiter and the tag.
const SMALLEST_RECORD: u32 = 18;
const TAG: usize = 16;

pub struct Browser {
    endpoint: String,
    key: PrivateKey,
    public_key: Vec<u8>,
    auth: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecryptionError(pub(super) &'static str);

impl fmt::Display for DecryptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DecryptionError {}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Browser {
    pub(super) fn new(endpoint: String) -> anyhow::Result<Browser> {
        let no_keys = |Unspecified| anyhow!("no random numbers");
        let key = PrivateKey::generate(&ECDH_P256).map_err(no_keys)?;
        let public_key = key.compute_public_key().map_err(no_keys)?.as_ref().to_vec();
        let mut auth = [0; 16];
        rand::fill(&mut auth).map_err(no_keys)?;
        Ok(Browser { endpoint, key, public_key, auth })
    }

    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// `PushSubscription` of the browser as JSON, as a web page sends it to its backend.
    #[must_use]
    pub fn subscription(&self) -> Value {
        json!({
            "endpoint": self.endpoint,
            "expirationTime": null,
            "keys": {
                "p256dh": URL_SAFE_NO_PAD.encode(&self.public_key),
                "auth": URL_SAFE_NO_PAD.encode(self.auth),
            },
        })
    }

    /// Private key of the browser, as 32 bytes in big-endian order. A test can pass the key to another implementation
    /// that decrypts messages.
    ///
    /// # Errors
    /// Returns an error if the key cannot be exported.
    pub fn private_key(&self) -> anyhow::Result<Vec<u8>> {
        let bytes = AsBigEndian::<EcPrivateKeyBin<'_>>::as_be_bytes(&self.key);
        Ok(bytes.map_err(|Unspecified| anyhow!("the key cannot be exported"))?.as_ref().to_vec())
    }

    #[must_use]
    pub fn auth(&self) -> &[u8] {
        &self.auth
    }

    /// Decrypts a message.
    ///
    /// # Errors
    /// Returns an error if the message is not encrypted for this browser, or if its format does not follow RFC 8291.
    pub fn decrypt(&self, body: &[u8]) -> Result<Vec<u8>, DecryptionError> {
        let EncryptedMessage { salt, sender, record } = EncryptedMessage::read(body)?;
        let peer = UnparsedPublicKey::new(&ECDH_P256, sender);
        let unreadable = DecryptionError("the message was not encrypted for this browser");
        let key_material: [u8; 32] = agree(&self.key, peer, unreadable, |secret| {
            let auth = hkdf::Salt::new(hkdf::HKDF_SHA256, &self.auth);
            let info: [&[u8]; 3] = [b"WebPush: info\0", &self.public_key, sender];
            expand(&auth.extract(secret), &info).ok_or(unreadable)
        })?;
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&key_material);
        let key: [u8; 16] = expand(&secret, &[b"Content-Encoding: aes128gcm\0"]).ok_or(unreadable)?;
        let nonce: [u8; 12] = expand(&secret, &[b"Content-Encoding: nonce\0"]).ok_or(unreadable)?;
        let key = UnboundKey::new(&AES_128_GCM, &key).map_err(|Unspecified| unreadable)?;
        let mut content = record.to_vec();
        let opened = LessSafeKey::new(key).open_in_place(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut content,
        );
        let opened = opened.map_err(|Unspecified| unreadable)?;
        let end = opened.iter().rposition(|byte| *byte != 0).filter(|end| opened[*end] == 2);
        let end = end.ok_or(DecryptionError("the record does not have the delimiter of a last record"))?;
        Ok(opened[..end].to_vec())
    }
}

/// Parts of an encrypted message (RFC 8188, section 2.1).
pub(super) struct EncryptedMessage<'a> {
    salt: &'a [u8],
    sender: &'a [u8],
    record: &'a [u8],
}

impl<'a> EncryptedMessage<'a> {
    /// Splits a message into its parts. Returns an error unless the message has exactly one record (RFC 8291, section
    /// 4).
    pub(super) fn read(body: &'a [u8]) -> Result<EncryptedMessage<'a>, DecryptionError> {
        let short = DecryptionError("the body ends within its header");
        let (salt, rest) = body.split_at_checked(SALT).ok_or(short)?;
        let (size, rest) = rest.split_first_chunk::<4>().ok_or(short)?;
        let (length, rest) = rest.split_first().ok_or(short)?;
        let (sender, record) = rest.split_at_checked(usize::from(*length)).ok_or(short)?;
        let size = u32::from_be_bytes(*size);
        if sender.len() != POINT || sender.first() != Some(&UNCOMPRESSED) {
            return Err(DecryptionError("the key id is not an uncompressed point of P-256"));
        }
        if size < SMALLEST_RECORD {
            return Err(DecryptionError("the record size is too small"));
        }
        if record.len() <= TAG || u32::try_from(record.len()).is_ok_and(|length| length > size) {
            return Err(DecryptionError("the body is not one record"));
        }
        Ok(EncryptedMessage { salt, sender, record })
    }
}

fn expand<const LENGTH: usize>(key: &hkdf::Prk, info: &[&[u8]]) -> Option<[u8; LENGTH]> {
    let mut output = [0; LENGTH];
    key.expand(info, Length(LENGTH)).ok()?.fill(&mut output).ok()?;
    Some(output)
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
