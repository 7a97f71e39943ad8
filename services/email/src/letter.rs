use std::borrow::Cow;
use std::sync::Arc;

use domain::content::{Attachment, Content, EmailContent, Object};
use domain::event::DeliveryJob;
use domain::{Timestamp, mail_header};
use lettre::Address;
use worker::Call;

use crate::address;
use crate::identity::Identity;
use crate::large_emails::LargeEmail;
use crate::letter_error::LetterError;
use crate::plain_text;

/// Maximum length of an unsubscribe link in octets. Its header must fit on one line (RFC 5322 section 2.1.1).
const LINK_LENGTH: usize = 900;

/// Headers of automatic emails. On Microsoft's servers they suppress automatic replies, not delivery reports.
const AUTOMATIC: [(&str, &str); 2] =
    [("Auto-Submitted", "auto-generated"), ("X-Auto-Response-Suppress", "OOF, AutoReply")];

pub(crate) struct Letter<'a> {
    /// `Message-ID` with its angle brackets, the same in every attempt.
    pub(crate) message_id: String,
    pub(crate) date: Timestamp,
    pub(crate) identity: Identity,
    pub(crate) to: Address,
    pub(crate) cc: Vec<Address>,
    pub(crate) bcc: Vec<Address>,
    pub(crate) subject: &'a str,
    pub(crate) text: Cow<'a, str>,
    pub(crate) html: Option<Cow<'a, str>>,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) attachments: Vec<(&'a Attachment, Arc<String>)>,
    /// Unsubscribe link: turns the send's category off for the recipient. Always None if the email has cc or bcc
    /// recipients.
    pub(crate) unsubscribe: Option<String>,
    pub(crate) room: Option<LargeEmail>,
    job: &'a DeliveryJob,
}

#[derive(Default)]
pub struct Enclosures {
    /// Attachments in base64, in the same order as in the content.
    pub(crate) attachments: Vec<Arc<String>>,
    pub(crate) unsubscribe: Option<String>,
    pub(crate) room: Option<LargeEmail>,
}

impl<'a> Letter<'a> {
    pub(crate) fn of(
        call: &Call<'a>,
        sender: &Identity,
        enclosed: Enclosures,
    ) -> Result<Letter<'a>, LetterError> {
        let Content::Email(content) = &call.job.content else { return Err(LetterError::Empty) };
        let overrides = call.job.overrides.get(&call.provider.identifier);
        Letter::compose(call.job, content, sender, overrides, enclosed, call.now)
    }

    /// Builds an email and validates all values that come from the send. A retry of a refused one would fail too.
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
        // Cc and bcc recipients must not get the link: they could turn the category off for the delivery's recipient.
        let unsubscribe = enclosed.unsubscribe.filter(|_| options.cc.is_empty() && options.bcc.is_empty());
        let (text, html) = match content.parts(unsubscribe.as_deref()) {
            (Some(text), html) => (text, html),
            (None, Some(html)) => (Cow::Owned(plain_text::of_html(&html)), Some(html)),
            (None, None) => return Err(LetterError::Empty),
        };
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
            html,
            headers: options.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            attachments: options.attachments.iter().zip(enclosed.attachments).collect(),
            room: enclosed.room,
            unsubscribe,
            job,
        })
    }

    pub(crate) fn delivery(&self) -> String {
        self.job.delivery_id.to_string()
    }

    /// Headers (name and value) that mark the email as automatic, so that no program answers it (RFC 3834 section 5). Microsoft's
    /// servers use their own header. A header of the send replaces the one of the same name.
    pub(crate) fn automatic_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_set = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        AUTOMATIC.into_iter().filter(move |(name, _)| !is_set(name))
    }

    /// Headers (name and value) that let a mail program offer an unsubscribe button; none if there is no link.
    /// One-click unsubscribing requires an https link (RFC 8058 section 3.1).
    pub(crate) fn unsubscribe_headers(&self) -> Vec<(&'static str, String)> {
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

/// Returns true if a send may set this header and its value cannot inject further headers.
fn may_be_added(name: &str, value: &str) -> bool {
    mail_header::refusal(name).is_none() && !value.chars().any(char::is_control)
}

fn addresses(texts: &[String]) -> Result<Vec<Address>, LetterError> {
    texts.iter().map(|text| address::parse(text).ok_or(LetterError::Copy)).collect()
}
