use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credentials::unsubscribe;
use domain::content::Attachment;
use domain::event::DeliveryJob;
use domain::{Answer, AppId, CategoryId, Outcome, SendId, UserNumber};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use service_kit::Context;
use worker::Call;

use crate::letter::Enclosures;

/// Maximum total size of the cached attachments, in octets of base64. The recipients of a send share cached attachments.
const KEPT: u64 = 64 << 20;
/// Unused files are first removed at twice this number.
const FEW: usize = 32;
/// Octets per line, which then has 76 characters, the maximum (RFC 2045 section 6.8).
const LINE: usize = 57;

/// Function that reads an attachment by app, send and number. Returns None if the attachment was removed.
pub type Load =
    dyn Fn(AppId, SendId, u32) -> BoxFuture<'static, Result<Option<Vec<u8>>, String>> + Send + Sync;
/// Function that creates the unsubscribe link, which turns a category off for a user. Returns None if the API has no
/// public URL.
pub type Link =
    dyn Fn(AppId, UserNumber, CategoryId) -> BoxFuture<'static, Result<Option<String>, String>> + Send + Sync;

/// App, send and number of a file.
type FileKey = (AppId, SendId, u32);

pub struct Sources {
    load: Box<Load>,
    link: Box<Link>,
    encoded: Cache<FileKey, Arc<String>>,
    /// Files that emails are sent with, even if the cache has no room for them.
    in_use: Mutex<InUse>,
}

/// Not `Weak<str>`, which would keep the memory of a text that is no longer used.
#[derive(Debug, Default)]
struct InUse {
    files: HashMap<FileKey, Weak<String>>,
    /// Number of files that were left when unused ones were removed.
    left: usize,
}

#[derive(Clone, Debug)]
enum AttachmentError {
    Gone,
    Unavailable(String),
}

impl Sources {
    #[must_use]
    pub fn new(load: Box<Load>, link: Box<Link>) -> Self {
        Sources { load, link, encoded: cache(KEPT), in_use: Mutex::default() }
    }

    #[must_use]
    pub fn of(context: &Context) -> Self {
        let store = context.store.clone();
        let load: Box<Load> = Box::new(move |app, send, number| {
            let store = store.clone();
            async move {
                store.deliveries().attachment(app, send, number).await.map_err(|error| error.to_string())
            }
            .boxed()
        });
        let context = context.clone();
        let link: Box<Link> = Box::new(move |app, user, category| {
            let context = context.clone();
            async move {
                let url = unsubscribe::url(&context.links, context.public_url(), app, user, category);
                url.await.map_err(|error| error.to_string())
            }
            .boxed()
        });
        Sources::new(load, link)
    }

    pub(crate) async fn load_enclosures(
        &self,
        call: &Call<'_>,
        files: &[Attachment],
    ) -> Result<Enclosures, Answer> {
        let mut attachments = Vec::with_capacity(files.len());
        for file in files {
            // A job without a send cannot have stored attachments.
            let send = call.send_id.ok_or(AttachmentError::Gone);
            let read = match send {
                Ok(send) => self.attachment(call.app, send, file.number).await,
                Err(gone) => Err(gone),
            };
            attachments.push(read.map_err(|missing| missing.answer(file.number))?);
        }
        Ok(Enclosures { attachments, unsubscribe: self.unsubscribe(call.app, call.job).await?, room: None })
    }

    /// Reads and encodes a file once for concurrent emails, and for later ones as long as it is kept or in use.
    async fn attachment(
        &self,
        app: AppId,
        send: SendId,
        number: u32,
    ) -> Result<Arc<String>, AttachmentError> {
        let key = (app, send, number);
        let reading = async {
            if let Some(in_use) = self.in_use().files.get(&key).and_then(Weak::upgrade) {
                return Ok(in_use);
            }
            let read = (self.load)(app, send, number).await.map_err(AttachmentError::Unavailable)?;
            let encoded = in_lines(&read.ok_or(AttachmentError::Gone)?);
            self.in_use().insert(key, &encoded);
            Ok(encoded)
        };
        let read: Result<_, Arc<AttachmentError>> = self.encoded.try_get_with(key, reading).await;
        read.map_err(Arc::unwrap_or_clone)
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn unsubscribe(&self, app: AppId, job: &DeliveryJob) -> Result<Option<String>, Answer> {
        let Some(category) = job.category else { return Ok(None) };
        (self.link)(app, job.user, category).await.map_err(|cause| {
            tracing::warn!(cause, "cannot create the unsubscribe link; retrying the delivery");
            Answer::new(Outcome::RETRY, "unsubscribe", "the unsubscribe link could not be created")
                .sparing_provider()
        })
    }
}

impl InUse {
    /// Looks for unused files only when the number has doubled, because there may be thousands.
    fn insert(&mut self, key: FileKey, file: &Arc<String>) {
        if self.files.len() >= self.left.max(FEW) * 2 {
            self.files.retain(|_, file| file.strong_count() > 0);
            self.left = self.files.len();
        }
        self.files.insert(key, Arc::downgrade(file));
    }
}

impl AttachmentError {
    fn answer(self, number: u32) -> Answer {
        match self {
            AttachmentError::Gone => {
                let message = format!("attachment {number} no longer exists");
                Answer::new(Outcome::Failed, "attachment_gone", message)
            }
            AttachmentError::Unavailable(cause) => {
                tracing::warn!(cause, "cannot read an attachment; retrying the delivery");
                Answer::new(Outcome::RETRY, "attachment", "an attachment could not be read")
                    .sparing_provider()
            }
        }
    }
}

fn cache(octets: u64) -> Cache<FileKey, Arc<String>> {
    let weight = |_: &FileKey, text: &Arc<String>| u32::try_from(text.len()).unwrap_or(u32::MAX);
    // The files of the newest sends are needed next, however often earlier ones were.
    Cache::builder().max_capacity(octets).weigher(weight).eviction_policy(EvictionPolicy::lru()).build()
}

/// Encodes as base64, which contains no dots or hyphens, so no line looks like the end of the email or like a boundary.
pub(crate) fn in_lines(bytes: &[u8]) -> Arc<String> {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + bytes.len() / LINE * 2 + 8);
    for line in bytes.chunks(LINE) {
        STANDARD.encode_string(line, &mut out);
        out.push_str("\r\n");
    }
    Arc::new(out)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_file_in_use_is_not_read_again_although_the_cache_has_dropped_it() {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let load: Box<Load> = Box::new(move |_, _, number| {
            counted.fetch_add(usize::from(number == 0), Ordering::Relaxed);
            async { Ok(Some(vec![b'.'; 500])) }.boxed()
        });
        let link: Box<Link> = Box::new(|_, _, _| async { Ok(None) }.boxed());
        let sources = Sources { encoded: cache(1_000), ..Sources::new(load, link) };
        let file = async |number| sources.attachment(AppId(1), SendId(Uuid::nil()), number).await.unwrap();
        let in_use = file(0).await;
        for number in 1..5 {
            file(number).await;
        }
        sources.encoded.run_pending_tasks().await;
        assert!(!sources.encoded.contains_key(&(AppId(1), SendId(Uuid::nil()), 0)));
        assert!(Arc::ptr_eq(&in_use, &file(0).await));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }
}
