//! What can go wrong between Tidings and its log.

use std::error::Error as _;
use std::fmt::Display;
use std::io;

use async_nats::{ConnectErrorKind, rustls};

/// The first connection failed. Nothing keeps trying.
#[derive(Debug, thiserror::Error)]
#[error("no connection to the event log: {reason}")]
pub struct ConnectError {
    /// What the client library said; never contains the address or credentials.
    pub reason: String,
    permanent: bool,
}

impl ConnectError {
    /// True if another attempt cannot help: the address, the credentials or a certificate are wrong.
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

/// The client library reports a certificate that one side refuses as an I/O error.
fn failed_in_tls(error: &async_nats::ConnectError) -> bool {
    let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.any(|cause| {
        let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause.is::<rustls::Error>() || inside.is_some_and(|inside| inside.is::<rustls::Error>())
    })
}

/// A stream could not be brought to, or is not, what its declaration says.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// The stream exists with another configuration than its size, or the server dropped a field of ours. Nothing was
    /// changed.
    #[error("stream {stream}: {field} is {found}, and must be {wanted}")]
    Differs {
        /// The stream's name.
        stream: String,
        /// The configuration field, under JetStream's name for it.
        field: &'static str,
        /// The declared value.
        wanted: String,
        /// The value that the server answered with.
        found: String,
    },
    /// The stream holds too much for a new limit. Nothing was changed.
    #[error(
        "stream {stream} holds {held} messages: a limit of {limit} is too small, it must be {least} at least"
    )]
    TooSmall {
        /// The stream's name.
        stream: String,
        /// Messages that it holds.
        held: u64,
        /// The limit that it was to have.
        limit: i64,
        /// The smallest that it can have now.
        least: u64,
    },
    /// The server could not be asked, or refused to create the stream or to change it.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

/// A message was not confirmed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The message is certainly not stored.
    #[error("stream {stream} did not take the message: {refusal}")]
    Refused {
        /// The stream's name.
        stream: String,
        /// Why not.
        refusal: Refusal,
    },
    /// No acknowledgement came in time, or it came with an error that leaves it open: the message may be stored.
    /// Repeating it with the same message id within the duplicate window (10 minutes) is safe.
    #[error("stream {stream} did not confirm the message, which may be stored or not: {reason}")]
    Unconfirmed {
        /// The stream's name.
        stream: String,
        /// What is known.
        reason: String,
    },
}

/// Why a stream certainly did not store a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The stream or the server has no room; a later attempt may succeed.
    #[error("it is full")]
    Full,
    /// The message with its headers is larger than the server accepts; no attempt will succeed.
    #[error("the message is too large")]
    TooLarge,
    /// No stream listens to the subject: it was never declared, or the server is starting.
    #[error("it does not exist or is not served at present")]
    NoStream,
    /// An earlier message of the same batch went unconfirmed, so this one was not sent.
    #[error("it was not sent, because an earlier message of its batch is unconfirmed")]
    NotSent,
}

/// Any other request to the log failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is away, did not answer in time, or refused. Repeating the call may help.
    #[error("the event log could not {action}: {reason}")]
    Unavailable {
        /// What was asked of it.
        action: String,
        /// What is known.
        reason: String,
    },
    /// The next record was removed before it was read: whoever follows the stream has missed something.
    #[error("stream {stream}: record {wanted} is gone, the next one is {first}")]
    Purged {
        /// The stream's name.
        stream: String,
        /// The sequence to be read next.
        wanted: u64,
        /// The lowest sequence from there on that the stream still has, or will have.
        first: u64,
    },
    /// The stream ends below what was already read: it lost its tail.
    #[error("stream {stream}: ends at {last}, although record {read} was already read")]
    Rewound {
        /// The stream's name.
        stream: String,
        /// The last sequence that was read.
        read: u64,
        /// The stream's last sequence.
        last: u64,
    },
    /// The stream was deleted and created again while it was read.
    #[error("stream {stream}: is another stream than the one read so far")]
    Replaced {
        /// The stream's name.
        stream: String,
    },
    /// A durable consumer exists with a configuration that would change what is delivered.
    #[error("consumer {consumer} of stream {stream}: {field} is {found}, and must be {wanted}")]
    ConsumerDiffers {
        /// The stream's name.
        stream: String,
        /// The durable name.
        consumer: String,
        /// The configuration field, under JetStream's name for it.
        field: &'static str,
        /// The wanted value.
        wanted: String,
        /// The value that the server answered with.
        found: String,
    },
}

impl Error {
    /// Whether repeating the call cannot help: the log is not what it was, and somebody has to look.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Error::Unavailable { .. })
    }

    pub(crate) fn unavailable(action: impl Into<String>, reason: impl Display) -> Error {
        Error::Unavailable { action: action.into(), reason: reason.to_string() }
    }
}
