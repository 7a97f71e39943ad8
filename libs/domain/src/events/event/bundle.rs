//! Bundles: messages that contain several events, at the cost of one in the log. A bundle has version 2, its data is the list of the
//! messages that it combines, and its type is that of its first event.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::envelope::{DecodeError, Envelope};
use crate::Timestamp;

const VERSION: u16 = 2;
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub envelope: Envelope,
    /// The event's own message, of version 1, which can be published or stored alone.
    pub message: Bytes,
}

/// Enough of a message to see whether it is a bundle.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    v: u16,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Decodes the events of a message, in order; there is at least one. Fails if this release cannot read every event.
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

/// A single message is returned unchanged. `kind` is the type of the first event.
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
