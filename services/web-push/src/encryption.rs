//! Encryption of messages to browsers (RFC 8291), as a single record of the encoding `aes128gcm` (RFC 8188).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, rand};
use domain::web_push::MAX_PLAINTEXT;
use store::directory::web_push::BrowserKeys;

/// Size in bytes. Push services may refuse larger bodies (RFC 8030, section 7.2).
const MAX_BODY: usize = 4096;
const SALT: usize = 16;
const POINT: usize = 65;
/// Length of the header: salt, record size, length of the key id, and key id (RFC 8188, section 2.1). The key id is the
/// sender's public key.
const HEADER: usize = SALT + 4 + 1 + POINT;
const TAG: usize = 16;
/// Delimiter after the content of the last record (RFC 8188, section 2). The message has only one record, without
/// padding.
const LAST: u8 = 2;

// The body also contains the header, the delimiter and the tag.
const _: () =
    assert!(MAX_PLAINTEXT == MAX_BODY - HEADER - TAG - 1, "the encryption adds a fixed number of bytes");

/// The browser's keys are invalid, or no random numbers are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be encrypted for the browser")]
pub struct EncryptionError;

impl From<Unspecified> for EncryptionError {
    fn from(Unspecified: Unspecified) -> Self {
        EncryptionError
    }
}

/// Uses a new key pair and a new salt. If `plaintext` has at most [`MAX_PLAINTEXT`] bytes, the body has at most 4,096 bytes.
pub fn encrypt(browser: &BrowserKeys, plaintext: &[u8]) -> Result<Vec<u8>, EncryptionError> {
    let mut salt = [0; SALT];
    rand::fill(&mut salt)?;
    encrypt_with(browser, &PrivateKey::generate(&ECDH_P256)?, salt, plaintext)
}

fn encrypt_with(
    browser: &BrowserKeys,
    own: &PrivateKey,
    salt: [u8; SALT],
    plaintext: &[u8],
) -> Result<Vec<u8>, EncryptionError> {
    let own_public = own.compute_public_key()?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, browser.p256dh.as_slice());
    let key_material: [u8; 32] = agree(own, peer, EncryptionError, |secret| {
        let auth = hkdf::Salt::new(hkdf::HKDF_SHA256, &browser.auth);
        expand(&auth.extract(secret), &[b"WebPush: info\0", &browser.p256dh, own_public.as_ref()])
    })?;
    let record = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(&key_material);
    let key: [u8; 16] = expand(&record, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; 12] = expand(&record, &[b"Content-Encoding: nonce\0"])?;

    let mut body = Vec::with_capacity(HEADER + plaintext.len() + 1 + TAG);
    body.extend_from_slice(&salt);
    body.extend_from_slice(&(MAX_BODY as u32).to_be_bytes());
    body.push(POINT as u8);
    body.extend_from_slice(own_public.as_ref());
    body.extend_from_slice(plaintext);
    body.push(LAST);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let content = body.get_mut(HEADER..).ok_or(EncryptionError)?;
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), content)?;
    body.extend_from_slice(tag.as_ref());
    Ok(body)
}

/// HKDF-Expand (RFC 5869, section 2.3).
fn expand<const LENGTH: usize>(key: &hkdf::Prk, info: &[&[u8]]) -> Result<[u8; LENGTH], EncryptionError> {
    let mut output = [0; LENGTH];
    key.expand(info, Length(LENGTH))?.fill(&mut output)?;
    Ok(output)
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    fn browser() -> BrowserKeys {
        BrowserKeys {
            p256dh: bytes(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            ),
            auth: bytes("BTBZMqHH6r4Tts7J_aSIgg"),
        }
    }

    #[test]
    fn the_example_of_rfc_8291_comes_out_byte_for_byte() {
        let own = bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
        let own = PrivateKey::from_private_key(&ECDH_P256, &own).unwrap();
        let salt = bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let body =
            encrypt_with(&browser(), &own, salt, b"When I grow up, I want to be a watermelon").unwrap();
        let expected = bytes(concat!(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml",
            "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT",
            "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
        ));
        assert_eq!(body, expected);
    }

    #[test]
    fn the_longest_message_fills_the_body_and_ciphertexts_differ() {
        let longest = vec![b'a'; MAX_PLAINTEXT];
        let (first, second) =
            (encrypt(&browser(), &longest).unwrap(), encrypt(&browser(), &longest).unwrap());
        assert_eq!((first.len(), MAX_PLAINTEXT), (MAX_BODY, 3_993));
        assert_ne!(first[..SALT], second[..SALT]);
        assert_ne!(first[HEADER - POINT..HEADER], second[HEADER - POINT..HEADER]);
    }

    #[test]
    fn an_invalid_key_is_an_error() {
        for p256dh in [Vec::new(), vec![4; 65], browser().p256dh[..64].to_vec()] {
            assert_eq!(encrypt(&BrowserKeys { p256dh, ..browser() }, b""), Err(EncryptionError));
        }
    }
}
