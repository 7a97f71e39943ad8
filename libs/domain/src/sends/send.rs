//! A send: one accepted notification request, as recorded in the log.

use serde::{Deserialize, Serialize};

use crate::content::{Attachment, InAppContent, Object};
use crate::id::TemplateId;
use crate::overrides::Overrides;
use crate::size::json_size;
use crate::text_enum::text_enum;
use crate::{Channel, Digest, Timestamp};

text_enum! {
    /// The queue of a send. Bulk sends never delay transactional sends.
    Lane {
        /// Small, urgent sends.
        Transactional = "transactional",
        /// Large sends, and sends that request this lane.
        Bulk = "bulk",
    }
}

/// Sends with more recipients than this go to the bulk lane.
pub const TRANSACTIONAL_RECIPIENTS: usize = 100;

/// Maximum number of recipients of a chunk.
pub const CHUNK_RECIPIENTS: usize = 500;

/// A validated send: the data of `SendAccepted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The send's own content. Fields of the template take precedence.
    pub content: InAppContent,
    /// The template, by identifier or number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// Category identifier. Planning creates the category if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Recipients, without duplicates, in the order given.
    pub recipients: Vec<Recipient>,
    /// Topics whose subscribers are recipients too, without duplicates. The dispatcher finds them chunk by chunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Identifiers of subscribers that are not recipients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The only channels that may be used; None if the send does not select channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<Channel>>,
    /// True if only targets may be used that a caller with a proof registered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub proven_targets: bool,
    /// Overrides for single channels and providers.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
    /// Files for the email channel. Their bytes are in the database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The send must not start before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_at: Option<Timestamp>,
    /// Deliveries must not be attempted after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub lane: Lane,
    /// A key by which the app can cancel the send, together with others that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation_key: Option<String>,
    /// The caller's idempotency key, and the digest of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A caller's idempotency key: requests with the same key and body are one send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencyKey {
    /// The key, which Tidings does not interpret.
    pub key: String,
    /// SHA-256 of the body in a canonical form.
    pub body_hash: Digest,
}

/// Reference of a send to its template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TemplateRef {
    /// The identifier that the app chose.
    Identifier(String),
    /// The number that Tidings assigned.
    Id(TemplateId),
}

impl TemplateRef {
    /// None if the send names its template by number.
    #[must_use]
    pub fn identifier(&self) -> Option<&str> {
        match self {
            TemplateRef::Identifier(identifier) => Some(identifier),
            TemplateRef::Id(_) => None,
        }
    }
}

/// One recipient of a send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RecipientWire", into = "RecipientWire")]
pub struct Recipient {
    /// The user's identifier in the app.
    pub identifier: String,
    /// Inline profile: the user is created or updated before planning. None if only the identifier was given.
    pub profile: Option<Object>,
    /// Variables for this recipient only. They override the send's data.
    pub data: Object,
}

// Form of a recipient in the log. A recipient with only an identifier is written as a string to keep the message small: the
// broker limits a message to 1 MiB.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum RecipientWire {
    Plain(String),
    Full {
        identifier: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<Object>,
        #[serde(default, skip_serializing_if = "Object::is_empty")]
        data: Object,
    },
}

impl From<RecipientWire> for Recipient {
    fn from(wire: RecipientWire) -> Self {
        match wire {
            RecipientWire::Plain(identifier) => Recipient::plain(identifier),
            RecipientWire::Full { identifier, profile, data } => Recipient { identifier, profile, data },
        }
    }
}

impl From<Recipient> for RecipientWire {
    fn from(recipient: Recipient) -> Self {
        match recipient {
            Recipient { identifier, profile: None, data } if data.is_empty() => {
                RecipientWire::Plain(identifier)
            }
            Recipient { identifier, profile, data } => RecipientWire::Full { identifier, profile, data },
        }
    }
}

impl Recipient {
    /// Creates a recipient with only an identifier.
    #[must_use]
    pub fn plain(identifier: String) -> Self {
        Recipient { identifier, profile: None, data: Object::new() }
    }

    /// Creates the placeholder for an erased recipient. No user has an empty identifier.
    #[must_use]
    pub fn erased() -> Self {
        Recipient::plain(String::new())
    }

    /// Returns true if this is the placeholder for an erased recipient.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.identifier.is_empty()
    }
}

impl SendRequest {
    /// Returns the approximate number of bytes that the recipients get together. `encoded` is the size of the send. Subscribers of
    /// topics are not counted.
    #[must_use]
    pub fn fan_out(&self, encoded: usize) -> usize {
        let copies = self.recipients.len().saturating_sub(1);
        if copies == 0 {
            return encoded;
        }
        let content = encoded.saturating_sub(json_size(&self.recipients));
        encoded.saturating_add(content.saturating_mul(copies))
    }

    /// Number of chunks for the recipients that the send lists. A send with topics has at least one such chunk, and further chunks for
    /// the subscribers ([`Expansion`](crate::Expansion)).
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.recipients.len().div_ceil(CHUNK_RECIPIENTS).max(usize::from(self.has_topics()))
    }

    #[must_use]
    pub fn has_topics(&self) -> bool {
        !self.topics.is_empty()
    }

    /// Returns true if the database must keep the send itself. Later chunks and scheduled sends are planned from `SendContinues`,
    /// which does not contain the send.
    #[must_use]
    pub fn needs_stored_body(&self) -> bool {
        self.chunks() > 1 || self.has_topics() || self.send_at.is_some()
    }

    /// Returns the listed recipients of a chunk; chunks are numbered from 0.
    #[must_use]
    pub fn chunk(&self, chunk: u32) -> &[Recipient] {
        self.recipients.chunks(CHUNK_RECIPIENTS).nth(chunk as usize).unwrap_or_default()
    }

    /// Lists the identifiers that the send contains: of its recipients, and of the subscribers that it excludes.
    pub fn identifiers(&self) -> impl Iterator<Item = &str> {
        let recipients = self.recipients.iter().map(|recipient| recipient.identifier.as_str());
        recipients.chain(self.exclude.iter().map(String::as_str))
    }

    /// Returns the send without the data of erased users; None if it names none. `is_erased` returns true for the identifiers of
    /// erased users. The other recipients keep their positions. If no recipient is left, the content, overrides, attachments and
    /// idempotency key are removed too, because they may contain data of an erased user.
    #[must_use]
    pub fn without(&self, is_erased: impl Fn(&str) -> bool) -> Option<SendRequest> {
        let must_go = |recipient: &Recipient| !recipient.is_erased() && is_erased(&recipient.identifier);
        if !self.recipients.iter().any(must_go) && !self.exclude.iter().any(|excluded| is_erased(excluded)) {
            return None;
        }
        let mut send = self.clone();
        send.exclude.retain(|excluded| !is_erased(excluded));
        for recipient in send.recipients.iter_mut().filter(|recipient| must_go(recipient)) {
            *recipient = Recipient::erased();
        }
        if send.has_only_erased_recipients() {
            send.content = InAppContent::default();
            send.overrides = Overrides::default();
            send.attachments.clear();
            send.idempotency = None;
        }
        Some(send)
    }

    /// Returns true if all recipients of the send were erased. A send with topics may have further recipients.
    #[must_use]
    pub fn has_only_erased_recipients(&self) -> bool {
        !self.has_topics() && self.recipients.iter().all(Recipient::is_erased)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn send() -> SendRequest {
        let send = json!({
            "content": {"title": "Hello Ada", "data": {"age": 36}},
            "overrides": {"email": {"subject": "For Ada"}},
            "attachments": [{"number": 0, "name": "ada.pdf", "contentType": "application/pdf", "size": 3}],
            "recipients": [{"identifier": "ada", "profile": {"email": "ada@example.com"}}, "bob"],
            "lane": "transactional",
        });
        serde_json::from_value(send).unwrap()
    }

    #[test]
    fn an_erased_recipient_leaves_only_its_position() {
        let send = send();
        assert_eq!(send.without(|identifier| identifier == "eve"), None);
        let without_ada = send.without(|identifier| identifier == "ada").unwrap();
        assert_eq!(without_ada.recipients, [Recipient::erased(), Recipient::plain("bob".into())]);
        assert_eq!(without_ada.content, send.content);
        assert_eq!((&without_ada.overrides, &without_ada.attachments), (&send.overrides, &send.attachments));
        let text = serde_json::to_string(&without_ada).unwrap();
        assert!(!text.contains("ada@") && serde_json::from_str::<SendRequest>(&text).unwrap() == without_ada);
        assert_eq!(without_ada.without(|identifier| identifier == "ada"), None);
    }

    #[test]
    fn a_send_loses_its_content_with_its_last_recipient() {
        let erased = send().without(|_| true).unwrap();
        assert_eq!(erased.content, InAppContent::default());
        assert!(
            erased.overrides.is_empty()
                && erased.attachments.is_empty()
                && erased.has_only_erased_recipients()
        );
        assert!(erased.recipients.iter().all(Recipient::is_erased));
        assert_eq!(erased.recipients.len(), 2);
    }
}
