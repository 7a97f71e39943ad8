use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Data, Event};
use crate::{AppId, SendId, Timestamp};

/// An event in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub id: Uuid,
    pub app: AppId,
    /// A replay uses this time instead of the current time.
    pub at: Timestamp,
    pub send_id: Option<SendId>,
    /// Id of the message whose processing produced this message.
    pub caused_by: Option<Uuid>,
    /// W3C trace context (`traceparent`) of the operation that wrote the message.
    pub trace: Option<String>,
    pub event: Event,
}

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The message is not an envelope, or its data does not fit its type.
    #[error("malformed message: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Readers count the message and skip it.
    #[error("unknown message type {0:?}")]
    UnknownType(String),
    /// The message has a newer version, or contains an enum value that this release does not know.
    #[error("{kind} was written by a newer release: {what}")]
    Newer { kind: String, what: String },
}

impl DecodeError {
    /// Empty if the message is malformed.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            DecodeError::Malformed(_) => "",
            DecodeError::UnknownType(kind) | DecodeError::Newer { kind, .. } => kind,
        }
    }
}

/// Version of a message with one event. A [`bundle`](super::bundle) has version 2.
pub(super) const VERSION: u16 = 1;
/// Version of a message with one event about a send to topics.
pub(super) const WITH_TOPICS: u16 = 3;
/// Start of serde's error text for an unknown enum value. The error has no code for this cause.
const UNKNOWN_VALUE: &str = "unknown variant `";

/// Returns the app and the send of a message, if they can be read. The data is not decoded, because its handling may have ended processes.
#[must_use]
pub fn envelope_owner(message: &[u8]) -> (Option<AppId>, Option<SendId>) {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Owner {
        app: Option<AppId>,
        send_id: Option<SendId>,
    }
    let Owner { app, send_id } = serde_json::from_slice(message).unwrap_or_default();
    (app, send_id)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EnvelopeOut<'a> {
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
struct EnvelopeIn<'a> {
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
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&EnvelopeOut {
            id: self.id,
            kind: self.event.kind(),
            v: self.event.version(),
            app: self.app,
            at: self.at,
            send_id: self.send_id,
            caused_by: self.caused_by,
            trace: self.trace.as_deref(),
            data: Data(&self.event),
        })
    }

    /// Decodes a message with one event. Readers of the log call [`bundle::decode`](super::bundle::decode) instead. Callers skip a message
    /// of an unknown type, and leave a newer message to an upgraded process.
    pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
        let wire: EnvelopeIn<'_> = serde_json::from_slice(bytes)?;
        let read = Event::read(wire.kind, wire.data.get());
        let newer = |what| DecodeError::Newer { kind: wire.kind.to_owned(), what };
        let event = match read {
            Err(unknown @ DecodeError::UnknownType(_)) => return Err(unknown),
            _ if !is_readable(wire.kind, wire.v) => {
                return Err(newer(format!("this release cannot read its version {}", wire.v)));
            }
            Err(DecodeError::Malformed(error)) if is_of_unknown_value(&error) => {
                return Err(newer(error.to_string()));
            }
            other => other?,
        };
        let EnvelopeIn { id, app, at, send_id, caused_by, trace, .. } = wire;
        Ok(Envelope { id, app, at, send_id, caused_by, trace, event })
    }
}

fn is_readable(kind: &str, version: u16) -> bool {
    version <= VERSION || version == WITH_TOPICS && ["SendAccepted", "SendContinues"].contains(&kind)
}

/// Only a newer release can have written an unknown enum value.
fn is_of_unknown_value(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with(UNKNOWN_VALUE)
}
