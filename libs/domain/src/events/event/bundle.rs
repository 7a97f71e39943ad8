//! Bundles: messages in the log that contain several events.
//!
//! A bundle costs the log as much as one message. A message of version 1 contains one event; a bundle has version 2, and its
//! data is the list of the messages that it combines. The type of a bundle is the type of its first event.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::envelope::{DecodeError, Envelope};
use crate::Timestamp;

/// Version of bundles.
const VERSION: u16 = 2;
/// An event of a message in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub envelope: Envelope,
    /// The event's own message, of version 1. It can be published or stored alone.
    pub message: Bytes,
}

/// The part of a message that shows whether it is a bundle.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    v: u16,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Decodes the events of a message in the log, in their order. There is at least one.
///
/// # Errors
/// Returns an error if this release cannot read every event of the message; see [`DecodeError`].
pub fn decode(message: &Bytes) -> Result<Vec<Part>, DecodeError> {
    let head: Head<'_> = serde_json::from_slice(message)?;
    if head.v != VERSION {
        return Ok(vec![Part { envelope: Envelope::decode(message)?, message: message.clone() }]);
    }
    let parts: Vec<&RawValue> = serde_json::from_str(head.data.get())?;
    if parts.is_empty() {
        return Err(DecodeError::Malformed(serde_json::Error::custom("a bundle without events")));
    }
    let decode = |part: &&RawValue| {
        let envelope = Envelope::decode(part.get().as_bytes()).map_err(|error| match error {
            // To skip an event would lose it, and the other events cannot be acknowledged without it.
            DecodeError::UnknownType(kind) => {
                DecodeError::Newer { kind: head.kind.to_owned(), what: format!("an event of type {kind:?}") }
            }
            other => other,
        })?;
        Ok(Part { envelope, message: message.slice_ref(part.get().as_bytes()) })
    };
    parts.iter().map(decode).collect()
}

/// Combines encoded envelopes into one message. `kind` is the type of the first event. A single message is returned unchanged.
#[must_use]
pub fn encode(kind: &str, messages: &[Bytes]) -> Bytes {
    if let [alone] = messages {
        return alone.clone();
    }
    // A release that cannot read bundles reads these members before it sees the version.
    let head = format!(
        r#"{{"id":"{}","type":"{kind}","v":{VERSION},"app":0,"at":"{}","sendId":null,"causedBy":null,"data":["#,
        Uuid::nil(),
        Timestamp::from_millis(0)
    );
    let mut bundle =
        Vec::with_capacity(head.len() + messages.iter().map(|one| one.len() + 1).sum::<usize>() + 2);
    bundle.extend_from_slice(head.as_bytes());
    for (place, message) in messages.iter().enumerate() {
        if place > 0 {
            bundle.push(b',');
        }
        bundle.extend_from_slice(message);
    }
    bundle.extend_from_slice(b"]}");
    bundle.into()
}
