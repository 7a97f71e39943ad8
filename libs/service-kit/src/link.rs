//! Links to the service that say by themselves whom they are for, signed with a key of their app.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{AppId, CategoryId, SendId, UserNumber};
use moka::future::Cache;
use secrecy::ExposeSecret;
use secrecy::zeroize::Zeroizing;
use store::Store;
use uuid::Uuid;

use crate::MasterKey;
use crate::secrets::SecretsError;

const KEY_LENGTH: usize = 32;
const TAG_LENGTH: usize = 32;
/// Apps whose keys are remembered.
const CAPACITY: u64 = 10_000;
/// How long a token's app is taken to have no key: tokens with made-up apps must not cost a query each.
const KEYLESS_FOR: Duration = Duration::from_secs(5);
/// The first byte of a token: its layout and its purpose.
const UNSUBSCRIBE: u8 = 1;
const CLICK: u8 = 2;

/// Who a link is for, and what following it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The app.
    pub app: AppId,
    /// The user that it was sent to.
    pub user: UserNumber,
    /// What it does.
    pub purpose: Purpose,
}

/// What following a link does. A token for one purpose is none for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Turns a category off for the user's email (RFC 8058).
    Unsubscribe(CategoryId),
    /// Tells that the user opened the notification that this send is for them.
    Click(SendId),
}

/// Why a link cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The database has no answer.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The key cannot be made, sealed or opened.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The app was made by a release that knew no such keys.
    #[error("app {0} has no key for links; `tidings migrate` makes one")]
    NoKey(AppId),
}

/// The context in which an app's key is sealed.
#[must_use]
pub fn key_context(app: AppId) -> String {
    format!("link-key:{app}")
}

/// Makes a key for the app. It keeps the one that it has.
///
/// # Errors
/// There are no random numbers, or the database failed.
pub async fn create(store: &Store, master_key: &MasterKey, app: AppId) -> Result<(), LinkError> {
    let mut key = Zeroizing::new([0; KEY_LENGTH]);
    rand::fill(&mut *key).map_err(|_| SecretsError::Random)?;
    store.add_link_key(app, &master_key.seal(&key_context(app), &*key)?).await?;
    Ok(())
}

/// Makes a key for every app that has none, and says for how many.
///
/// # Errors
/// As for [`create`]; the apps before have theirs.
pub async fn create_missing(store: &Store, master_key: &MasterKey) -> Result<usize, LinkError> {
    let apps = store.apps_without_link_key().await?;
    for &app in &apps {
        create(store, master_key, app).await?;
    }
    Ok(apps.len())
}

/// Signs and verifies links with the keys of their apps, which are remembered: they never change. That the app
/// of a token has none is remembered for a moment. Clones share both.
#[derive(Clone)]
pub struct Links {
    store: Store,
    master_key: MasterKey,
    keys: Cache<AppId, Arc<hmac::Key>>,
    keyless: Cache<AppId, ()>,
}

impl Links {
    /// Knows no key yet.
    #[must_use]
    pub fn new(store: Store, master_key: MasterKey) -> Links {
        let keyless = Cache::builder().max_capacity(CAPACITY).time_to_live(KEYLESS_FOR).build();
        Links { store, master_key, keys: Cache::new(CAPACITY), keyless }
    }

    /// The token of a link: at most 100 characters of the URL-safe base64 alphabet.
    ///
    /// # Errors
    /// The app's key cannot be had.
    pub async fn sign(&self, link: &Link) -> Result<String, LinkError> {
        let key = self.key(link.app).await?;
        let mut token = written(link);
        let tag = hmac::sign(&key, &token);
        token.extend_from_slice(tag.as_ref());
        Ok(URL_SAFE_NO_PAD.encode(token))
    }

    /// The link that a token stands for; None for what the service never signed. The signature is compared in constant
    /// time.
    ///
    /// # Errors
    /// The app's key cannot be had, though the app has one.
    pub async fn verify(&self, token: &str) -> Result<Option<Link>, LinkError> {
        let Some((text, tag, link)) = parsed(token) else {
            return Ok(None);
        };
        if self.keyless.contains_key(&link.app) {
            return Ok(None);
        }
        match self.key(link.app).await {
            Ok(key) => Ok(hmac::verify(&key, &text, &tag).is_ok().then_some(link)),
            Err(LinkError::NoKey(app)) => {
                self.keyless.insert(app, ()).await;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn key(&self, app: AppId) -> Result<Arc<hmac::Key>, LinkError> {
        if let Some(key) = self.keys.get(&app).await {
            return Ok(key);
        }
        let sealed = self.store.link_key(app).await?.ok_or(LinkError::NoKey(app))?;
        let opened = self.master_key.open(&key_context(app), &sealed)?;
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, opened.expose_secret()));
        self.keys.insert(app, Arc::clone(&key)).await;
        Ok(key)
    }
}

/// What is signed: purpose, app, user, and what the purpose names.
fn written(link: &Link) -> Vec<u8> {
    let (purpose, subject) = match link.purpose {
        Purpose::Unsubscribe(category) => (UNSUBSCRIBE, category.0.to_be_bytes().to_vec()),
        Purpose::Click(send_id) => (CLICK, send_id.0.as_bytes().to_vec()),
    };
    [&[purpose], link.app.0.to_be_bytes().as_slice(), &link.user.0.to_be_bytes(), &subject].concat()
}

/// A token's signed text, its tag, and the link that it claims to be.
fn parsed(token: &str) -> Option<(Vec<u8>, [u8; TAG_LENGTH], Link)> {
    const LONGEST: usize = 128;
    if token.len() > LONGEST {
        return None;
    }
    let mut text = URL_SAFE_NO_PAD.decode(token).ok()?;
    let tag = text.split_off(text.len().checked_sub(TAG_LENGTH)?).try_into().ok()?;
    let (purpose, rest) = text.split_first()?;
    let (app, rest) = rest.split_first_chunk()?;
    let (user, subject) = rest.split_first_chunk()?;
    let purpose = match *purpose {
        UNSUBSCRIBE => Purpose::Unsubscribe(CategoryId(i64::from_be_bytes(subject.try_into().ok()?))),
        CLICK => Purpose::Click(SendId(Uuid::from_bytes(subject.try_into().ok()?))),
        _ => return None,
    };
    let (app, user) = (AppId(i64::from_be_bytes(*app)), UserNumber(i64::from_be_bytes(*user)));
    Some((text, tag, Link { app, user, purpose }))
}
