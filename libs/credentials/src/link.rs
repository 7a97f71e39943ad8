//! Links to the API that need no other credential. A token names a key of the app by a random id, and contains the user and the purpose,
//! encrypted with that key.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Actor, AppId, CategoryId, SendId, Timestamp, UserNumber};
use moka::future::Cache;
use secrecy::ExposeSecret;
use secrecy::zeroize::Zeroizing;
use store::Store;
use store::control::link_key::LinkKey;
use uuid::Uuid;

use crate::MasterKey;
use crate::secrets::SecretsError;

const KEY_LENGTH: usize = 32;
const NONCE_LENGTH: usize = 12;
const TAG_LENGTH: usize = 32;
const LONGEST: usize = 128;
const CAPACITY: u64 = 10_000;
/// Lifetime of a cached key, or of its absence: a rotation takes effect in all processes within it, and repeated tokens with the same
/// invented key id cause only one query.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Lifetime of the unsubscribe link of an email. CAN-SPAM requires 30 days, but recipients may open archived emails later.
pub const UNSUBSCRIBE_FOR: Duration = Duration::from_secs(400 * 24 * 3600);
pub const CLICK_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
/// First byte of a signed, unencrypted token. Only keys that earlier releases created sign tokens.
const SIGNED_UNSUBSCRIBE: u8 = 1;
const SIGNED_CLICK: u8 = 2;
const SEALED: u8 = 3;
/// First plaintext byte of an encrypted token.
const UNSUBSCRIBE: u8 = 1;
const CLICK: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub app: AppId,
    pub user: UserNumber,
    pub purpose: Purpose,
}

/// A token for one purpose is invalid for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Turns a category off for the user's email (RFC 8058).
    Unsubscribe(CategoryId),
    Click(SendId),
}

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The app was created by a release without keys for links.
    #[error("app {0} has no key for links; `tidings migrate` creates one")]
    NoKey(AppId),
}

#[must_use]
pub fn key_context(app: AppId) -> String {
    format!("link-key:{app}")
}

pub async fn create(store: &Store, master_key: &MasterKey, app: AppId) -> Result<(), LinkError> {
    store.control().add_link_key(app, &generate(master_key, app)?).await?;
    Ok(())
}

/// Creates a new key for the app's links; links with earlier keys stay valid for `grace`. Returns the version of the key; None if the app
/// does not exist.
pub async fn rotate(
    store: &Store,
    master_key: &MasterKey,
    app: AppId,
    grace: Duration,
    actor: &Actor,
) -> Result<Option<i32>, LinkError> {
    Ok(store.control().rotate_link_key(app, &generate(master_key, app)?, grace, actor).await?)
}

pub fn generate(master_key: &MasterKey, app: AppId) -> Result<Vec<u8>, SecretsError> {
    let mut key = Zeroizing::new([0; KEY_LENGTH]);
    rand::fill(&mut *key).map_err(|_| SecretsError::Random)?;
    master_key.seal(&key_context(app), &*key)
}

/// Returns the number of created keys. Keys created before an error stay.
pub async fn create_missing(store: &Store, master_key: &MasterKey) -> Result<usize, LinkError> {
    let apps = store.control().apps_without_link_key().await?;
    for &app in &apps {
        create(store, master_key, app).await?;
    }
    Ok(apps.len())
}

/// Creates and verifies tokens. All clones share a cache of keys, which lasts 5 s.
#[derive(Clone)]
pub struct Links {
    store: Store,
    master_key: MasterKey,
    clock: fn() -> Timestamp,
    in_use: Cache<AppId, Arc<Key>>,
    by_id: Cache<Uuid, Option<Arc<Key>>>,
    /// Keys that signed the tokens of earlier releases.
    signing: Cache<AppId, Option<Arc<hmac::Key>>>,
}

struct Key {
    id: Uuid,
    app: AppId,
    key: RandomizedNonceKey,
    /// Set only for a key that was created before tokens were sealed.
    signing: Option<hmac::Key>,
}

impl Links {
    #[must_use]
    pub fn new(store: Store, master_key: MasterKey, clock: fn() -> Timestamp) -> Links {
        Links { store, master_key, clock, in_use: cache(), by_id: cache(), signing: cache() }
    }

    /// At most 100 characters of the URL-safe base64 alphabet.
    pub async fn sign(&self, link: &Link) -> Result<String, LinkError> {
        self.sign_at(link, (self.clock)()).await
    }

    pub async fn sign_at(&self, link: &Link, at: Timestamp) -> Result<String, LinkError> {
        let key = self.key_in_use(link.app).await?;
        if let Some(signing) = &key.signing {
            let mut token = written_signed(link);
            token.extend_from_slice(hmac::sign(signing, &token).as_ref());
            return Ok(URL_SAFE_NO_PAD.encode(token));
        }
        let mut token = [&[SEALED], key.id.as_bytes().as_slice()].concat();
        let mut text = plaintext(link, at);
        let nonce = key
            .key
            .seal_in_place_append_tag(Aad::from(token.as_slice()), &mut text)
            .map_err(|_| SecretsError::Random)?;
        token.extend_from_slice(nonce.as_ref());
        token.append(&mut text);
        Ok(URL_SAFE_NO_PAD.encode(token))
    }

    /// None if Tidings did not create the token, its key is no longer valid, or the link has expired.
    pub async fn verify(&self, token: &str) -> Result<Option<Link>, LinkError> {
        if token.len() > LONGEST {
            return Ok(None);
        }
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(token) else {
            return Ok(None);
        };
        match bytes.first() {
            Some(&SEALED) => self.open(&bytes).await,
            Some(_) => self.verify_signed(bytes).await,
            None => Ok(None),
        }
    }

    async fn open(&self, token: &[u8]) -> Result<Option<Link>, LinkError> {
        let Some((head, rest)) = token.split_at_checked(1 + size_of::<Uuid>()) else {
            return Ok(None);
        };
        let (Some(id), Some((nonce, sealed))) = (head.last_chunk(), rest.split_first_chunk::<NONCE_LENGTH>())
        else {
            return Ok(None);
        };
        let Some(key) = self.key_by_id(Uuid::from_bytes(*id)).await? else {
            return Ok(None);
        };
        let mut sealed = sealed.to_vec();
        let opened = key.key.open_in_place(Nonce::from(nonce), Aad::from(head), &mut sealed);
        Ok(opened.ok().and_then(|text| read(key.app, text, (self.clock)())))
    }

    /// Compares the signature in constant time.
    async fn verify_signed(&self, token: Vec<u8>) -> Result<Option<Link>, LinkError> {
        let Some((text, tag, link)) = parsed_signed(token) else {
            return Ok(None);
        };
        let key = self.signing_key(link.app).await?;
        Ok(key.filter(|key| hmac::verify(key, &text, &tag).is_ok()).map(|_| link))
    }

    async fn key_in_use(&self, app: AppId) -> Result<Arc<Key>, LinkError> {
        if let Some(key) = self.in_use.get(&app).await {
            return Ok(key);
        }
        let key = self.store.control().link_key(app).await?.ok_or(LinkError::NoKey(app))?;
        let key = Arc::new(self.opened(&key)?);
        self.in_use.insert(app, Arc::clone(&key)).await;
        Ok(key)
    }

    async fn key_by_id(&self, id: Uuid) -> Result<Option<Arc<Key>>, LinkError> {
        if let Some(known) = self.by_id.get(&id).await {
            return Ok(known);
        }
        let found = self.store.control().find_link_key(id).await?;
        let key = found.map(|key| self.opened(&key)).transpose()?.map(Arc::new);
        self.by_id.insert(id, key.clone()).await;
        Ok(key)
    }

    async fn signing_key(&self, app: AppId) -> Result<Option<Arc<hmac::Key>>, LinkError> {
        if let Some(known) = self.signing.get(&app).await {
            return Ok(known);
        }
        let key = match self.store.control().first_link_key(app).await? {
            Some(LinkKey { sealed, .. }) => {
                let secret = self.master_key.open(&key_context(app), &sealed)?;
                Some(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret())))
            }
            None => None,
        };
        self.signing.insert(app, key.clone()).await;
        Ok(key)
    }

    /// The key that seals tokens is derived from the stored secret, because the secret itself signed tokens of earlier releases.
    fn opened(&self, &LinkKey { id, app, ref sealed, seals }: &LinkKey) -> Result<Key, SecretsError> {
        let secret = self.master_key.open(&key_context(app), sealed)?;
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret());
        let derived = hmac::sign(&secret, b"sealed links");
        let key =
            RandomizedNonceKey::new(&AES_256_GCM, derived.as_ref()).map_err(|_| SecretsError::Random)?;
        Ok(Key { id, app, key, signing: (!seals).then_some(secret) })
    }
}

fn cache<K, V>() -> Cache<K, V>
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    Cache::builder().max_capacity(CAPACITY).time_to_live(REMEMBERED_FOR).build()
}

/// Purpose, user, minute of creation, and category or send, depending on the purpose.
fn plaintext(link: &Link, at: Timestamp) -> Vec<u8> {
    let (purpose, subject) = match link.purpose {
        Purpose::Unsubscribe(category) => (UNSUBSCRIBE, category.0.to_be_bytes().to_vec()),
        Purpose::Click(send_id) => (CLICK, send_id.0.as_bytes().to_vec()),
    };
    let minute = u32::try_from(at.millis() / 60_000).unwrap_or_default();
    [&[purpose], link.user.0.to_be_bytes().as_slice(), &minute.to_be_bytes(), &subject].concat()
}

fn read(app: AppId, text: &[u8], now: Timestamp) -> Option<Link> {
    let (purpose, rest) = text.split_first()?;
    let (user, rest) = rest.split_first_chunk()?;
    let (minute, subject) = rest.split_first_chunk()?;
    let (purpose, good_for) = match *purpose {
        UNSUBSCRIBE => {
            (Purpose::Unsubscribe(CategoryId(i64::from_be_bytes(subject.try_into().ok()?))), UNSUBSCRIBE_FOR)
        }
        CLICK => (Purpose::Click(SendId(Uuid::from_bytes(subject.try_into().ok()?))), CLICK_FOR),
        _ => return None,
    };
    let made = Timestamp::from_millis(i64::from(u32::from_be_bytes(*minute)) * 60_000);
    (now <= made + good_for).then_some(Link { app, user: UserNumber(i64::from_be_bytes(*user)), purpose })
}

fn written_signed(link: &Link) -> Vec<u8> {
    let (layout, subject) = match link.purpose {
        Purpose::Unsubscribe(category) => (SIGNED_UNSUBSCRIBE, category.0.to_be_bytes().to_vec()),
        Purpose::Click(send_id) => (SIGNED_CLICK, send_id.0.as_bytes().to_vec()),
    };
    [&[layout], link.app.0.to_be_bytes().as_slice(), &link.user.0.to_be_bytes(), &subject].concat()
}

/// The link is not verified yet.
fn parsed_signed(mut text: Vec<u8>) -> Option<(Vec<u8>, [u8; TAG_LENGTH], Link)> {
    let tag = text.split_off(text.len().checked_sub(TAG_LENGTH)?).try_into().ok()?;
    let (purpose, rest) = text.split_first()?;
    let (app, rest) = rest.split_first_chunk()?;
    let (user, subject) = rest.split_first_chunk()?;
    let purpose = match *purpose {
        SIGNED_UNSUBSCRIBE => Purpose::Unsubscribe(CategoryId(i64::from_be_bytes(subject.try_into().ok()?))),
        SIGNED_CLICK => Purpose::Click(SendId(Uuid::from_bytes(subject.try_into().ok()?))),
        _ => return None,
    };
    let app = AppId(i64::from_be_bytes(*app));
    let user = UserNumber(i64::from_be_bytes(*user));
    Some((text, tag, Link { app, user, purpose }))
}
