use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credentials::unsubscribe;
use domain::content::Attachment;
use domain::event::DeliveryJob;
use domain::{Answer, AppId, CategoryId, Outcome, SendId, UserNumber};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use moka::future::Cache;
use service_kit::Context;
use worker::Call;

use crate::letter::Enclosures;

/// Maximum total size of the cached attachments, in octets of base64. The recipients of a send share cached attachments.
const KEPT: u64 = 64 << 20;
/// Octets per line, which then has 76 characters, the maximum (RFC 2045 section 6.8).
const LINE: usize = 57;

/// Function that reads an attachment by app, send and number. Returns None if the attachment was removed.
pub type Load =
    dyn Fn(AppId, SendId, u32) -> BoxFuture<'static, Result<Option<Vec<u8>>, String>> + Send + Sync;
/// Function that creates the unsubscribe link, which turns a category off for a user. Returns None if the API has no
/// public URL.
pub type Link =
    dyn Fn(AppId, UserNumber, CategoryId) -> BoxFuture<'static, Result<Option<String>, String>> + Send + Sync;

pub struct Sources {
    load: Box<Load>,
    link: Box<Link>,
    encoded: Cache<(AppId, SendId, u32), Arc<str>>,
}

#[derive(Clone, Debug)]
enum AttachmentError {
    Gone,
    Unavailable(String),
}

impl Sources {
    #[must_use]
    pub fn new(load: Box<Load>, link: Box<Link>) -> Self {
        let weight =
            |_: &(AppId, SendId, u32), text: &Arc<str>| u32::try_from(text.len()).unwrap_or(u32::MAX);
        Sources { load, link, encoded: Cache::builder().max_capacity(KEPT).weigher(weight).build() }
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

    async fn attachment(&self, app: AppId, send: SendId, number: u32) -> Result<Arc<str>, AttachmentError> {
        let reading = async {
            let read = (self.load)(app, send, number).await.map_err(AttachmentError::Unavailable)?;
            Ok(in_lines(&read.ok_or(AttachmentError::Gone)?))
        };
        let read: Result<_, Arc<AttachmentError>> =
            self.encoded.try_get_with((app, send, number), reading).await;
        read.map_err(Arc::unwrap_or_clone)
    }

    async fn unsubscribe(&self, app: AppId, job: &DeliveryJob) -> Result<Option<String>, Answer> {
        let Some(category) = job.category else { return Ok(None) };
        (self.link)(app, job.user, category).await.map_err(|cause| {
            tracing::warn!(cause, "cannot create the unsubscribe link; retrying the delivery");
            Answer::new(Outcome::RETRY, "unsubscribe", "the unsubscribe link could not be created")
        })
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
            }
        }
    }
}

/// Encodes as base64, which contains no dots or hyphens, so no line looks like the end of the email or like a boundary.
fn in_lines(bytes: &[u8]) -> Arc<str> {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + bytes.len() / LINE * 2 + 8);
    for line in bytes.chunks(LINE) {
        STANDARD.encode_string(line, &mut out);
        out.push_str("\r\n");
    }
    out.into()
}
