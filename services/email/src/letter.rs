//! What an email says, and to whom, before it takes the shape that its provider wants.

use std::borrow::Cow;
use std::sync::Arc;

use domain::content::{Attachment, EmailContent, Object};
use domain::event::DeliveryJob;
use domain::{Timestamp, mail_header};
use lettre::Address;

use crate::address;
use crate::identity::Identity;
use crate::plain_text;

/// Octets of a link that fits onto a header's line (RFC 5322 section 2.1.1).
const LINK_LENGTH: usize = 900;

/// An email, checked.
pub(crate) struct Letter<'a> {
    /// `Message-ID`, with its angle brackets: the same at every attempt.
    pub(crate) message_id: String,
    pub(crate) date: Timestamp,
    pub(crate) identity: Identity,
    pub(crate) to: Address,
    pub(crate) cc: Vec<Address>,
    pub(crate) bcc: Vec<Address>,
    pub(crate) subject: &'a str,
    pub(crate) text: Cow<'a, str>,
    pub(crate) html: Option<&'a str>,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) attachments: Vec<(&'a Attachment, Arc<str>)>,
    /// The link that turns the category off for the recipient, where nobody else gets the email.
    pub(crate) unsubscribe: Option<String>,
    job: &'a DeliveryJob,
}

/// What an email needs beyond its job.
#[derive(Default)]
pub(crate) struct Enclosures {
    /// The attachments in base64, in the order of the content's.
    pub(crate) attachments: Vec<Arc<str>>,
    /// The link that turns the category off.
    pub(crate) unsubscribe: Option<String>,
}

/// Why content cannot become an email.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LetterError {
    /// The target is no address.
    #[error("the target is not an email address")]
    Address,
    /// A recipient beside the target is no address.
    #[error("a recipient in cc or bcc is not an email address")]
    Copy,
    /// The send names a sender that is none.
    #[error("the send's own from, fromName or replyTo is not text, no address, too long or has a line break")]
    Sender,
    /// The send names a sender that the provider's settings do not allow.
    #[error("the provider does not allow this sender: name its address or @domain in settings.allowedFrom")]
    SenderNotAllowed,
    /// The subject would inject headers.
    #[error("the subject contains CR, LF or NUL")]
    Subject,
    /// A header of the send is the service's own, or would inject others.
    #[error("a header of the send is not allowed")]
    Header,
    /// The name of an attachment would inject headers.
    #[error("the name of an attachment contains CR, LF or NUL")]
    AttachmentName,
    /// Neither text nor HTML.
    #[error("there is neither text nor HTML")]
    Empty,
    /// The send sets a member of the provider's request that is the service's own.
    #[error("the send overrides a member of the provider's request that it may not")]
    Member,
    /// The message could not be put together.
    #[error("the message cannot be built")]
    Build,
}

impl LetterError {
    /// What is recorded as the attempt's code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            LetterError::Address => "address",
            LetterError::Member => "override",
            LetterError::SenderNotAllowed => "sender_not_allowed",
            _ => "content",
        }
    }
}

impl<'a> Letter<'a> {
    /// Checks everything that comes from the send.
    ///
    /// # Errors
    /// See [`LetterError`]; all of them are for good.
    pub(crate) fn compose(
        job: &'a DeliveryJob,
        content: &'a EmailContent,
        sender: &Identity,
        overrides: Option<&Object>,
        enclosed: Enclosures,
        date: Timestamp,
    ) -> Result<Letter<'a>, LetterError> {
        let options = &content.options;
        let config =
            overrides.and_then(|members| members.get("_config")).and_then(|config| config.as_object());
        let identity = sender.of_send(options, config)?;
        let to = address::parse(&job.target).ok_or(LetterError::Address)?;
        if content.subject.contains(['\r', '\n', '\0']) {
            return Err(LetterError::Subject);
        }
        let text = match (&content.text, &content.html) {
            (Some(text), _) => Cow::Borrowed(text.as_str()),
            (None, Some(html)) => Cow::Owned(plain_text::of_html(html)),
            (None, None) => return Err(LetterError::Empty),
        };
        if !options.headers.iter().all(|(name, value)| may_be_added(name, value)) {
            return Err(LetterError::Header);
        }
        let unsafe_name = |file: &Attachment| file.name.contains(['\r', '\n', '\0']);
        if options.attachments.iter().any(unsafe_name) {
            return Err(LetterError::AttachmentName);
        }
        if options.attachments.len() != enclosed.attachments.len() || !enclosed.has_a_usable_link() {
            return Err(LetterError::Build);
        }
        let message_id = format!("<{}@{}>", job.delivery_id, identity.from.email.domain());
        Ok(Letter {
            message_id,
            date,
            identity,
            to,
            cc: addresses(&options.cc)?,
            bcc: addresses(&options.bcc)?,
            subject: &content.subject,
            text,
            html: content.html.as_deref(),
            headers: options.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            attachments: options.attachments.iter().zip(enclosed.attachments).collect(),
            // Whoever gets a copy could turn the category off for the recipient.
            unsubscribe: enclosed.unsubscribe.filter(|_| options.cc.is_empty() && options.bcc.is_empty()),
            job,
        })
    }

    /// The delivery's id, in digits.
    pub(crate) fn delivery(&self) -> String {
        self.job.delivery_id.to_string()
    }

    /// Name and value of the headers by which a reader's program unsubscribes: one click is for https alone
    /// (RFC 8058 section 3.1).
    pub(crate) fn unsubscribing(&self) -> Vec<(&'static str, String)> {
        let Some(link) = &self.unsubscribe else { return Vec::new() };
        let mut headers = vec![("List-Unsubscribe", format!("<{link}>"))];
        if link.starts_with("https://") {
            headers.push(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
        }
        headers
    }
}

impl Enclosures {
    fn has_a_usable_link(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>');
        self.unsubscribe.as_ref().is_none_or(|link| link.len() <= LINK_LENGTH && link.bytes().all(plain))
    }
}

/// Whether a header can be added to the email without becoming another header or several.
fn may_be_added(name: &str, value: &str) -> bool {
    mail_header::refusal(name).is_none() && !value.contains(['\r', '\n', '\0'])
}

fn addresses(texts: &[String]) -> Result<Vec<Address>, LetterError> {
    texts.iter().map(|text| address::parse(text).ok_or(LetterError::Copy)).collect()
}
