use std::error::Error as _;
use std::fmt::Display;
use std::io;

use async_nats::{ConnectErrorKind, rustls};

#[derive(Debug, thiserror::Error)]
#[error("no connection to the event log: {reason}")]
pub struct ConnectError {
    /// Message of the client library, without the address or credentials.
    pub reason: String,
    permanent: bool,
}

impl ConnectError {
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

/// The client library reports a refused certificate as an I/O error.
fn failed_in_tls(error: &async_nats::ConnectError) -> bool {
    let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.any(|cause| {
        let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause.is::<rustls::Error>() || inside.is_some_and(|inside| inside.is::<rustls::Error>())
    })
}

#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// An existing stream was not changed. It differs in more than its size, or the server ignored a field.
    #[error("stream {stream}: {field} is {found}, and must be {wanted}")]
    Differs { stream: String, field: &'static str, wanted: String, found: String },
    /// No stream was changed.
    #[error(
        "stream {stream} holds {held} messages: a limit of {limit} is too small, it must be at least {least}"
    )]
    TooSmall { stream: String, held: u64, limit: i64, least: u64 },
    #[error(transparent)]
    Unavailable(#[from] Error),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PublishError {
    /// The message is certainly not stored.
    #[error("stream {stream} did not accept the message: {refusal}")]
    Refused { stream: String, refusal: Refusal },
    /// The message may be stored. Publishing it again with the same message id is safe within the duplicate window (10 minutes).
    #[error("stream {stream} did not confirm the message, which may be stored or not: {reason}")]
    Unconfirmed { stream: String, reason: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A later attempt may succeed.
    #[error("it is full")]
    Full,
    /// Too large with its headers. No attempt will succeed.
    #[error("the message is too large")]
    TooLarge,
    /// The stream was never declared, or the server is still starting.
    #[error("it does not exist or is not available at present")]
    NoStream,
    /// The connection may be down as well.
    #[error("it was not sent, because an earlier message of its batch is unconfirmed")]
    NotSent,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Retrying may help.
    #[error("the event log could not {action}: {reason}")]
    Unavailable { action: String, reason: String },
    #[error("stream {stream}: record {wanted} was removed, the next one is {first}")]
    Purged {
        stream: String,
        wanted: u64,
        /// The stream has or will have a record at this sequence.
        first: u64,
    },
    #[error("stream {stream}: ends at {last}, although record {read} was already read")]
    Rewound { stream: String, read: u64, last: u64 },
    #[error("stream {stream}: was deleted and created again since it was first read")]
    Replaced { stream: String },
    #[error("consumer {consumer} of stream {stream}: {field} is {found}, and must be {wanted}")]
    ConsumerDiffers { stream: String, consumer: String, field: &'static str, wanted: String, found: String },
}

impl Error {
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Error::Unavailable { .. })
    }

    pub(crate) fn unavailable(action: impl Into<String>, reason: impl Display) -> Error {
        Error::Unavailable { action: action.into(), reason: reason.to_string() }
    }
}
