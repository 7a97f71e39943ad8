//! A send: one accepted request, as it stands in the log.

use serde::{Deserialize, Serialize};

use crate::content::{Attachment, InAppContent, Object};
use crate::id::TemplateId;
use crate::overrides::Overrides;
use crate::text_enum::text_enum;
use crate::{Channel, Digest, Timestamp};

text_enum! {
    /// The queue that a send travels in; bulk never delays transactional.
    Lane {
        /// Small sends that somebody waits for.
        Transactional = "transactional",
        /// Large sends, and those that ask for it.
        Bulk = "bulk",
    }
}

/// Sends with more recipients than this go to the bulk lane.
pub const TRANSACTIONAL_RECIPIENTS: usize = 100;

/// Recipients that one chunk of planning takes.
pub const CHUNK_RECIPIENTS: usize = 500;

/// A validated send: what `SendAccepted` carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// Content given with the send itself; a template's fields win where it has them.
    pub content: InAppContent,
    /// The template, by identifier or number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// Category identifier; made when the send is planned, if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Recipients, without duplicates, in the order given.
    pub recipients: Vec<Recipient>,
    /// The only channels to use, where the send names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<Channel>>,
    /// What single channels and providers say and do otherwise.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
    /// Files for the email channel. Their bytes are in the database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_at: Option<Timestamp>,
    /// Not after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The lane that it was accepted into.
    pub lane: Lane,
    /// The caller's key for it, and what was sent under the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
}

/// A caller's key for a send: repeats of the same body under it are the same send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencyKey {
    /// The key, which means something to the caller alone.
    pub key: String,
    /// SHA-256 over the body in a canonical form.
    pub body_hash: Digest,
}

/// How a send names its template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TemplateRef {
    /// By the identifier that the app chose.
    Identifier(String),
    /// By the service's number.
    Id(TemplateId),
}

/// One recipient of a send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RecipientWire", into = "RecipientWire")]
pub struct Recipient {
    /// The user's identifier in the app.
    pub identifier: String,
    /// Profile given inline: the user is created or merged before planning. None: only the identifier was given.
    pub profile: Option<Object>,
    /// Variables of this recipient alone; they win over the send's data.
    pub data: Object,
}

// Most recipients are a bare identifier, which must not grow in the log: the broker bounds a message to 1 MiB.
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
    /// A recipient given by identifier alone.
    #[must_use]
    pub fn plain(identifier: String) -> Self {
        Recipient { identifier, profile: None, data: Object::new() }
    }

    /// What stands in the place of a recipient that was erased. No user has an empty identifier.
    #[must_use]
    pub fn erased() -> Self {
        Recipient::plain(String::new())
    }

    /// Whether this stands in the place of a recipient that was erased.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.identifier.is_empty()
    }
}

impl SendRequest {
    /// Number of chunks that planning takes.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.recipients.len().div_ceil(CHUNK_RECIPIENTS)
    }

    /// Whether its body is kept in the database, for chunks that no message of the log carries.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.chunks() > 1 || self.send_at.is_some()
    }

    /// The recipients of a chunk, from 0.
    #[must_use]
    pub fn chunk(&self, chunk: u32) -> &[Recipient] {
        self.recipients.chunks(CHUNK_RECIPIENTS).nth(chunk as usize).unwrap_or_default()
    }

    /// The send without what it says of the recipients whose identifiers `is_erased` knows; None when it names none
    /// of them. The others keep their positions. Where nobody is left, the content goes too, with overrides and
    /// attachments: it may have been about the one that it was for.
    #[must_use]
    pub fn without(&self, is_erased: impl Fn(&str) -> bool) -> Option<SendRequest> {
        let goes = |recipient: &Recipient| !recipient.is_erased() && is_erased(&recipient.identifier);
        if !self.recipients.iter().any(goes) {
            return None;
        }
        let mut send = self.clone();
        for recipient in send.recipients.iter_mut().filter(|recipient| goes(recipient)) {
            *recipient = Recipient::erased();
        }
        if send.is_for_nobody() {
            send.content = InAppContent::default();
            send.overrides = Overrides::default();
            send.attachments.clear();
            send.idempotency = None;
        }
        Some(send)
    }

    /// Whether all its recipients were erased.
    #[must_use]
    pub fn is_for_nobody(&self) -> bool {
        self.recipients.iter().all(Recipient::is_erased)
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
    fn an_erased_recipient_leaves_its_place_and_nothing_else() {
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
    fn with_its_last_recipient_a_send_loses_its_content() {
        let nobody = send().without(|_| true).unwrap();
        assert_eq!(nobody.content, InAppContent::default());
        assert!(nobody.overrides.is_empty() && nobody.attachments.is_empty() && nobody.is_for_nobody());
        assert!(nobody.recipients.iter().all(Recipient::is_erased));
        assert_eq!(nobody.recipients.len(), 2);
    }
}
