//! What can go wrong with the database.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

/// A failure of a statement or of the connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The statement failed, or the database could not be reached in time.
    #[error("database: {}", without_data(.0))]
    Database(sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("migration: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// A row holds what this release cannot read.
    #[error("unreadable row: {0}")]
    Unreadable(String),
    /// A profile cannot be changed so; nothing was written.
    #[error("{0}")]
    Refused(#[from] domain::profile::Refusal),
    /// The app has as many of these as it may; nothing was written.
    #[error("the app has as many {0} as it may")]
    QuotaReached(crate::control::quota::Quota),
    /// Tables that are to take the place of others are not made as those are; nothing was changed.
    #[error("the new tables of the inbox are not made as the live ones are:\n  - {}", .0.join("\n  - "))]
    Differs(Vec<String>),
    /// The batch that this call was part of failed. All its callers share the cause, which may be another's data.
    #[error("the batch that this was part of failed: {0}")]
    Batch(Arc<Error>),
    /// A pooler in transaction or statement mode is in the way.
    #[error(
        "the pooler at this address shares sessions between clients: switch it to session mode, or connect to PostgreSQL \
         itself (Tidings needs its own sessions for time limits, locks and prepared statements)"
    )]
    SharedSessions,
    /// The call got no answer from its batch; it may still be carried out.
    #[error("unanswered: {0}")]
    Unanswered(&'static str),
}

// Not `#[from]`: as a source its own text, data included, would be printed beside ours.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Error::Database(error)
    }
}

/// The text of an error for logs. Messages about refused data and undecodable columns quote the data, which may be an
/// address or a body, so the SQLSTATE, the constraint or the column stands for them.
fn without_data(error: &sqlx::Error) -> Cow<'static, str> {
    match error {
        sqlx::Error::Database(refused) => match refused.code().filter(|code| is_about_data(code)) {
            Some(code) => {
                let constraint = refused.constraint().map(|name| format!(", constraint {name}"));
                format!("the data were refused: SQLSTATE {code}{}", constraint.unwrap_or_default()).into()
            }
            None => refused.message().to_owned().into(),
        },
        sqlx::Error::ColumnDecode { index, .. } => format!("column {index} cannot be decoded").into(),
        sqlx::Error::Decode(_) => "a value cannot be decoded".into(),
        sqlx::Error::Encode(_) => "a value cannot be encoded".into(),
        error => error.to_string().into(),
    }
}

/// SQLSTATE classes 22 (data exception) and 23 (integrity constraint violation).
fn is_about_data(code: &str) -> bool {
    code.starts_with("22") || code.starts_with("23")
}

impl Error {
    /// Whether the data itself was refused (SQLSTATE classes 22 and 23), so that repeating cannot help.
    #[must_use]
    pub fn is_refused_data(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_refused_data(),
            Error::Refused(_) | Error::QuotaReached(_) => true,
            Error::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| is_about_data(&code))
            }
            _ => false,
        }
    }

    /// Whether a row that the statement refers to is gone (SQLSTATE 23503), such as that of a user who was erased
    /// meanwhile. Repeating finds out.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_overtaken(),
            Error::Database(sqlx::Error::Database(error)) => error.is_foreign_key_violation(),
            _ => false,
        }
    }

    /// Whether a lock that another transaction holds was not free in time (SQLSTATE 55P03), or waiting for it would have
    /// been a deadlock (40P01).
    #[must_use]
    pub fn is_lock_timeout(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_lock_timeout(),
            Error::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| code == "55P03" || code == "40P01")
            }
            _ => false,
        }
    }

    /// Whether a row holds what this release cannot read, as one that a newer release has written.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_unreadable(),
            Error::Unreadable(_) => true,
            _ => false,
        }
    }

    /// Returns true if retrying cannot help: the login, the database or the certificate is wrong (SQLSTATE class 28 and 3D000),
    /// or the pooler is unusable.
    #[must_use]
    pub fn is_permanent_refusal(&self) -> bool {
        match self {
            Error::SharedSessions => true,
            Error::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| code.starts_with("28") || code == "3D000")
            }
            Error::Database(sqlx::Error::Configuration(_)) => true,
            // An I/O error of another kind is a connection that broke during the handshake.
            Error::Database(sqlx::Error::Tls(cause)) => {
                let io = cause.downcast_ref::<io::Error>();
                io.is_none_or(|error| error.kind() == io::ErrorKind::InvalidData)
            }
            _ => false,
        }
    }

    /// Whether the database could not be reached or could not do it now, so that repeating can help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_unavailable(),
            Error::Unanswered(_) => true,
            Error::Migration(_)
            | Error::Unreadable(_)
            | Error::Refused(_)
            | Error::QuotaReached(_)
            | Error::SharedSessions
            | Error::Differs(_) => false,
            // Connection, transaction and lock failures, too few resources, shutting down, read only.
            Error::Database(sqlx::Error::Database(error)) => error.code().is_some_and(|code| {
                ["08", "25", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class))
            }),
            Error::Database(error) => matches!(
                error,
                sqlx::Error::Io(_)
                    | sqlx::Error::Tls(_)
                    | sqlx::Error::Protocol(_)
                    | sqlx::Error::PoolTimedOut
                    | sqlx::Error::PoolClosed
                    | sqlx::Error::WorkerCrashed
                    | sqlx::Error::BeginFailed
            ),
        }
    }
}
