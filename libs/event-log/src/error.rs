//! Errors of the event log.

use std::error::Error as _;
use std::fmt::Display;
use std::io;

use async_nats::{ConnectErrorKind, rustls};

/// Error while connecting. The event log does not retry the first connection.
#[derive(Debug, thiserror::Error)]
#[error("no connection to the event log: {reason}")]
pub struct ConnectError {
    /// Message of the client library; never contains the address or credentials.
    pub reason: String,
    permanent: bool,
}

impl ConnectError {
    /// Returns true if another attempt cannot help, because the address, the credentials or a certificate are wrong.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.permanent
    }

    pub(crate) fn permanent(reason: String) -> ConnectError {
        ConnectError { reason, permanent: true }
    }

    pub(crate) fn of_client(error: &async_nats::ConnectError) -> ConnectError {
        let permanent = match error.kind() {
            ConnectErrorKind::ServerParse
            | ConnectErrorKind::Authentication
            | ConnectErrorKind::AuthorizationViolation
            | ConnectErrorKind::Tls => true,
            ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => failed_in_tls(error),
        };
        ConnectError { reason: error.to_string(), permanent }
    }
}

/// Returns true if TLS caused the error. The client library reports a refused certificate as an I/O error.
fn failed_in_tls(error: &async_nats::ConnectError) -> bool {
    let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.any(|cause| {
        let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause.is::<rustls::Error>() || inside.is_some_and(|inside| inside.is::<rustls::Error>())
    })
}

/// Error while declaring or resizing a stream.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// The stream's configuration differs from the declaration in more than its size, or the server ignored a declared field. An
    /// existing stream was not changed.
    #[error("stream {stream}: {field} is {found}, and must be {wanted}")]
    Differs {
        stream: String,
        /// JetStream's name of the configuration field.
        field: &'static str,
        /// The declared value.
        wanted: String,
        /// The server's value.
        found: String,
    },
    /// The stream holds too many messages for a new limit. No stream was changed.
    #[error(
        "stream {stream} holds {held} messages: a limit of {limit} is too small, it must be at least {least}"
    )]
    TooSmall {
        stream: String,
        /// Number of messages in the stream.
        held: u64,
        /// The wanted limit.
        limit: i64,
        /// The smallest possible limit.
        least: u64,
    },
    /// The server could not be reached, or refused to create or change the stream.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

/// Error while publishing a message.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PublishError {
    /// The message is certainly not stored.
    #[error("stream {stream} did not accept the message: {refusal}")]
    Refused { stream: String, refusal: Refusal },
    /// The message may be stored or not: no acknowledgement arrived in time, or the server can report this error both before and
    /// after it stores the message. Publishing it again with the same message id is safe within the duplicate window (10
    /// minutes).
    #[error("stream {stream} did not confirm the message, which may be stored or not: {reason}")]
    Unconfirmed { stream: String, reason: String },
}

/// Reason why a stream did not store a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The stream or the server is full. A later attempt may succeed.
    #[error("it is full")]
    Full,
    /// The message with its headers is larger than the server accepts. No attempt will succeed.
    #[error("the message is too large")]
    TooLarge,
    /// No stream stores messages of this subject: the stream was never declared, or the server is still starting.
    #[error("it does not exist or is not available at present")]
    NoStream,
    /// The message was not sent, because an earlier message of the same batch is unconfirmed, or the connection is down.
    #[error("it was not sent, because an earlier message of its batch is unconfirmed")]
    NotSent,
}

/// Error of any other request to the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is unavailable, did not answer in time, or refused the request. Retrying may help.
    #[error("the event log could not {action}: {reason}")]
    Unavailable {
        /// Requested operation.
        action: String,
        reason: String,
    },
    /// The next record was removed from the stream before the reader read it.
    #[error("stream {stream}: record {wanted} was removed, the next one is {first}")]
    Purged {
        stream: String,
        /// The sequence to read next.
        wanted: u64,
        /// The lowest sequence after `wanted` at which the stream has or will have a record.
        first: u64,
    },
    /// The stream ends before a record that was already read: the stream has lost its last records.
    #[error("stream {stream}: ends at {last}, although record {read} was already read")]
    Rewound {
        stream: String,
        /// The last sequence that was read.
        read: u64,
        /// The stream's last sequence.
        last: u64,
    },
    /// The stream was deleted and created again while it was read.
    #[error("stream {stream}: was deleted and created again since it was first read")]
    Replaced { stream: String },
    /// A durable consumer exists, but its configuration would deliver different messages.
    #[error("consumer {consumer} of stream {stream}: {field} is {found}, and must be {wanted}")]
    ConsumerDiffers {
        stream: String,
        consumer: String,
        /// JetStream's name of the configuration field.
        field: &'static str,
        /// The wanted value.
        wanted: String,
        /// The server's value.
        found: String,
    },
}

impl Error {
    /// Returns true if retrying cannot help, because the log has changed and an operator has to act.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Error::Unavailable { .. })
    }

    pub(crate) fn unavailable(action: impl Into<String>, reason: impl Display) -> Error {
        Error::Unavailable { action: action.into(), reason: reason.to_string() }
    }
}
