pub mod foreign;
pub mod rotation;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{constant_time, digest, hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain::AppId;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretSlice};

const KEY_LENGTH: usize = 32;
const NONCE_LENGTH: usize = 12;
const TAG_LENGTH: usize = 16;
const ID_LENGTH: usize = 8;
/// Version of the layout: the version, the id of the master key, a nonce, the record key sealed with the master key, another nonce, and the
/// plaintext sealed with the record key.
const VERSION: u8 = 1;
const HEADER_LENGTH: usize = 1 + ID_LENGTH;
const WRAPPED_LENGTH: usize = NONCE_LENGTH + KEY_LENGTH + TAG_LENGTH;
/// Size in bytes. A valid file has 44 characters and a line break.
const LONGEST_KEY_FILE: u64 = 128;

#[derive(Clone, Debug)]
pub struct Security {
    /// Every service needs it.
    pub master_key_file: Option<PathBuf>,
    /// Set during a rotation.
    pub previous_master_key_file: Option<PathBuf>,
    /// Services start even though they cannot open the records that were sealed with these keys.
    pub lost_master_keys: Vec<String>,
}

/// No message contains any part of a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    #[error("master key file {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "master key file {}: its mode is {mode:03o}, so other accounts can use it; run chmod 600 on it, or let root own \
         it with mode 640 and a group of this process",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("master key file {}: its content is not 32 bytes in base64", path.display())]
    NotAKey { path: PathBuf },
    #[error("security.master_key_file is not set")]
    NotConfigured,
    #[error(
        "the secret of {context} was sealed with master key {sealed_with}, but the configured one is {ours}"
    )]
    OtherKey { context: String, sealed_with: String, ours: String },
    /// Changed, truncated, moved from another record, or sealed by a later release.
    #[error("the secret of {context} cannot be opened: it is damaged, or belongs to another record")]
    Damaged { context: String },
    #[error("the operating system gave no random numbers")]
    Random,
}

/// All clones share the key and, during a rotation, the previous one.
#[derive(Clone)]
pub struct MasterKey {
    primary: Key,
    previous: Option<Key>,
}

#[derive(Clone)]
struct Key {
    key: Arc<RandomizedNonceKey>,
    id: [u8; ID_LENGTH],
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl MasterKey {
    /// Reads a file of 32 bytes in base64, which other accounts must not be able to access.
    pub fn load(path: &Path) -> Result<MasterKey, SecretsError> {
        let failed = |source| SecretsError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mode = metadata.mode() & 0o777;
        if !may_hold_a_key(metadata.uid(), metadata.gid(), mode, &process_groups()) {
            return Err(SecretsError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(Vec::new());
        file.take(LONGEST_KEY_FILE).read_to_end(&mut text).map_err(failed)?;
        let key = STANDARD.decode(text.trim_ascii()).map(Zeroizing::new);
        let key = key.ok().and_then(|key| MasterKey::from_bytes(&key).ok());
        key.ok_or_else(|| SecretsError::NotAKey { path: path.to_owned() })
    }

    pub fn configured(security: &Security) -> Result<MasterKey, SecretsError> {
        let file = security.master_key_file.as_deref().ok_or(SecretsError::NotConfigured)?;
        let mut master_key = MasterKey::load(file)?;
        if let Some(file) = &security.previous_master_key_file {
            master_key.previous = Some(MasterKey::load(file)?.primary);
        }
        Ok(master_key)
    }

    /// Writes a new key to `path`, which must not exist yet, with mode 0600.
    pub fn generate_file(path: &Path) -> Result<MasterKey, SecretsError> {
        let failed = |source| SecretsError::File { path: path.to_owned(), source };
        let text =
            Zeroizing::new(STANDARD.encode(random_key().map_err(|Unspecified| SecretsError::Random)?) + "\n");
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Self::load(path)
    }

    fn from_bytes(key: &[u8]) -> Result<MasterKey, Unspecified> {
        let mut id = [0; ID_LENGTH];
        id.copy_from_slice(&sha256(key)[..ID_LENGTH]);
        let key = Arc::new(RandomizedNonceKey::new(&AES_256_GCM, key)?);
        Ok(MasterKey { primary: Key { key, id }, previous: None })
    }

    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.primary.id)
    }

    #[must_use]
    pub fn previous_id(&self) -> Option<String> {
        self.previous.as_ref().map(|previous| hex(&previous.id))
    }

    /// Prefix of the secrets that this key sealed, and of no others.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        [&[VERSION][..], &self.primary.id].concat()
    }

    pub fn reseal(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, SecretsError> {
        self.seal(context, self.open(context, sealed)?.expose_secret())
    }

    /// Seals `plaintext` with AES-256-GCM under a new record key, itself sealed with the master key. Only the same `context` (such as
    /// `provider:1:main`) can open it.
    pub fn seal(&self, context: &str, plaintext: &[u8]) -> Result<Vec<u8>, SecretsError> {
        self.try_seal(context, plaintext).map_err(|Unspecified| SecretsError::Random)
    }

    fn try_seal(&self, context: &str, plaintext: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let record_key = random_key()?;
        let mut sealed =
            Vec::with_capacity(HEADER_LENGTH + WRAPPED_LENGTH + NONCE_LENGTH + plaintext.len() + TAG_LENGTH);
        sealed.push(VERSION);
        sealed.extend_from_slice(&self.primary.id);
        let bound = bound_to(&sealed, context);
        append_sealed(&self.primary.key, &bound, &*record_key, &mut sealed)?;
        let record_key = RandomizedNonceKey::new(&AES_256_GCM, &*record_key)?;
        append_sealed(&record_key, &bound, plaintext, &mut sealed)?;
        Ok(sealed)
    }

    /// Fails if the secret is damaged, or was sealed for another context or with neither the current nor the previous master key.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<SecretSlice<u8>, SecretsError> {
        let damaged = || SecretsError::Damaged { context: context.to_owned() };
        let (header, rest) = sealed.split_at_checked(HEADER_LENGTH).ok_or_else(damaged)?;
        if header[0] != VERSION {
            return Err(damaged());
        }
        let keys = std::iter::once(&self.primary).chain(&self.previous);
        let Some(Key { key, .. }) = keys.into_iter().find(|key| header[1..] == key.id) else {
            return Err(SecretsError::OtherKey {
                context: context.to_owned(),
                sealed_with: hex(&header[1..]),
                ours: self.id(),
            });
        };
        let (wrapped, body) = rest.split_at_checked(WRAPPED_LENGTH).ok_or_else(damaged)?;
        let bound = bound_to(header, context);
        let opened = open_sealed(key, &bound, wrapped).and_then(|record_key| {
            let record_key = RandomizedNonceKey::new(&AES_256_GCM, &record_key)?;
            open_sealed(&record_key, &bound, body)
        });
        opened.map(|plaintext| SecretSlice::from(plaintext.to_vec())).map_err(|Unspecified| damaged())
    }
}

/// PostgreSQL's rule for its TLS key: a file owned by this account must be private, but a file owned by root may be readable by a group of
/// this process. Kubernetes mounts a Secret with mode 0440 for root and the pod's `fsGroup`.
fn may_hold_a_key(owner: u32, group: u32, mode: u32, our_groups: &[u32]) -> bool {
    let readable_by_group = owner == 0 && our_groups.contains(&group);
    let others = if readable_by_group { 0o037 } else { 0o077 };
    mode & others == 0
}

fn process_groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    others.iter().chain([&rustix::process::getegid()]).map(|group| group.as_raw()).collect()
}

fn bound_to(header: &[u8], context: &str) -> Vec<u8> {
    [header, context.as_bytes()].concat()
}

fn append_sealed(
    key: &RandomizedNonceKey,
    bound: &[u8],
    plaintext: &[u8],
    sealed: &mut Vec<u8>,
) -> Result<(), Unspecified> {
    let start = sealed.len() + NONCE_LENGTH;
    sealed.resize(start, 0);
    sealed.extend_from_slice(plaintext);
    let (nonce, tag) = key.seal_in_place_separate_tag(Aad::from(bound), &mut sealed[start..])?;
    sealed[start - NONCE_LENGTH..start].copy_from_slice(nonce.as_ref());
    sealed.extend_from_slice(tag.as_ref());
    Ok(())
}

fn open_sealed(
    key: &RandomizedNonceKey,
    bound: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Unspecified> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_LENGTH).ok_or(Unspecified)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce)?;
    let mut opened = Zeroizing::new(sealed.to_vec());
    let length = key.open_in_place(nonce, Aad::from(bound), &mut opened)?.len();
    opened.truncate(length);
    Ok(opened)
}

fn random_key() -> Result<Zeroizing<[u8; KEY_LENGTH]>, Unspecified> {
    let mut key = Zeroizing::new([0; KEY_LENGTH]);
    rand::fill(&mut *key)?;
    Ok(key)
}

/// Returns `prefix` and URL-safe base64 without padding. Use 16 bytes for an id, 32 for a secret.
pub fn random_token(prefix: &str, bytes: usize) -> Result<String, SecretsError> {
    let mut random = Zeroizing::new(vec![0; bytes]);
    rand::fill(&mut random).map_err(|Unspecified| SecretsError::Random)?;
    Ok(prefix.to_owned() + &URL_SAFE_NO_PAD.encode(&*random))
}

pub fn random_bytes(length: usize) -> Result<SecretSlice<u8>, SecretsError> {
    let mut random = vec![0; length];
    rand::fill(&mut random).map_err(|Unspecified| SecretsError::Random)?;
    Ok(SecretSlice::from(random))
}

#[must_use]
pub fn app_secret_context(app: AppId) -> String {
    format!("app-secret:{app}")
}

#[must_use]
pub fn provider_context(app: AppId, identifier: &str) -> String {
    format!("provider:{app}:{identifier}")
}

#[must_use]
pub fn webhook_secret_context(app: AppId, endpoint: i64) -> String {
    format!("webhook-secret:{app}:{endpoint}")
}

#[must_use]
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut tag = [0; 32];
    tag.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref());
    tag
}

/// For peers that support nothing better. The known collisions of SHA-1 do not weaken HMAC.
#[must_use]
pub fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut tag = [0; 20];
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    tag.copy_from_slice(hmac::sign(&key, message).as_ref());
    tag
}

#[must_use]
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    hash
}

/// Takes a time that depends only on the lengths.
#[must_use]
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_private_or_owned_by_root_and_readable_by_our_group() {
        const OURS: u32 = 10_001;
        for (owner, group, mode, allowed) in [
            (OURS, OURS, 0o600, true),
            (OURS, OURS, 0o400, true),
            (OURS, OURS, 0o640, false),
            (OURS, OURS, 0o604, false),
            // A Kubernetes Secret in a pod with an fsGroup.
            (0, OURS, 0o440, true),
            (0, OURS, 0o640, true),
            (0, OURS, 0o660, false),
            (0, OURS, 0o444, false),
            (0, 7, 0o440, false),
            (1_000, OURS, 0o440, false),
        ] {
            assert_eq!(may_hold_a_key(owner, group, mode, &[OURS, 20]), allowed, "{owner}:{group} {mode:o}");
        }
    }
}
