//! The envelope in which events stand in the log.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Data, Event};
use crate::{AppId, SendId, Timestamp};

/// A message of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Identity of this message.
    pub id: Uuid,
    /// The app that it belongs to.
    pub app: AppId,
    /// When the fact happened; what replays go by.
    pub at: Timestamp,
    /// The send that it concerns.
    pub send_id: Option<SendId>,
    /// The message that led to it.
    pub caused_by: Option<Uuid>,
    /// W3C trace context (`traceparent`) of the work that wrote it.
    pub trace: Option<String>,
    /// What happened.
    pub event: Event,
}

/// Why a message of the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not an envelope, or its data does not fit its type.
    #[error("malformed message: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A type that this release does not know; readers count and skip it.
    #[error("unknown message type {0:?}")]
    UnknownType(String),
    /// A newer version of a known type, or a value that an enumeration of this release does not have; its reader must be
    /// upgraded first.
    #[error("{kind} is of a newer release: {what}")]
    Newer {
        /// The type.
        kind: String,
        /// What of it this release does not know.
        what: String,
    },
}

impl DecodeError {
    /// The type of the message, as far as it could be read; else empty.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            DecodeError::Malformed(_) => "",
            DecodeError::UnknownType(kind) | DecodeError::Newer { kind, .. } => kind,
        }
    }
}

/// The version of every type that this release writes.
const VERSION: u16 = 1;
/// How serde begins to tell of a value that an enumeration does not have, of which it keeps the text alone.
const UNKNOWN_VALUE: &str = "unknown variant `";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireOut<'a> {
    id: Uuid,
    #[serde(rename = "type")]
    kind: &'a str,
    v: u16,
    app: AppId,
    at: Timestamp,
    send_id: Option<SendId>,
    caused_by: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    data: Data<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireIn<'a> {
    id: Uuid,
    #[serde(rename = "type")]
    kind: &'a str,
    v: u16,
    app: AppId,
    at: Timestamp,
    send_id: Option<SendId>,
    caused_by: Option<Uuid>,
    #[serde(default)]
    trace: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Envelope {
    /// Writes the message as JSON.
    ///
    /// # Errors
    /// Only where memory for the text cannot be had; every event is representable.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&WireOut {
            id: self.id,
            kind: self.event.kind(),
            v: VERSION,
            app: self.app,
            at: self.at,
            send_id: self.send_id,
            caused_by: self.caused_by,
            trace: self.trace.as_deref(),
            data: Data(&self.event),
        })
    }

    /// Reads a message.
    ///
    /// # Errors
    /// See [`DecodeError`]; an unknown type is to be skipped, a newer version to be waited for.
    pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
        let wire: WireIn<'_> = serde_json::from_slice(bytes)?;
        let read = Event::read(wire.kind, wire.data.get());
        let newer = |what| DecodeError::Newer { kind: wire.kind.to_owned(), what };
        let event = match read {
            Err(unknown @ DecodeError::UnknownType(_)) => return Err(unknown),
            _ if wire.v > VERSION => {
                return Err(newer(format!("version {}, and this one reads up to {VERSION}", wire.v)));
            }
            Err(DecodeError::Malformed(error)) if is_of_unknown_value(&error) => {
                return Err(newer(error.to_string()));
            }
            other => other?,
        };
        let WireIn { id, app, at, send_id, caused_by, trace, .. } = wire;
        Ok(Envelope { id, app, at, send_id, caused_by, trace, event })
    }
}

/// Nothing writes a value that no release has, so that one which is not known here is known to a newer one.
fn is_of_unknown_value(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with(UNKNOWN_VALUE)
}
