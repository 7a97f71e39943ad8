//! What can go wrong with the database.

use std::sync::Arc;

/// A failure of a statement or of the connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The statement failed, or the database could not be reached in time.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
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
    QuotaReached(crate::quota::Quota),
    /// Tables that are to take the place of others are not made as those are; nothing was changed.
    #[error("the new tables of the inbox are not made as the live ones are:\n  - {}", .0.join("\n  - "))]
    Unlike(Vec<String>),
    /// The batch that this call was part of failed. All its callers share the cause, which may be another's data.
    #[error("the batch that this was part of failed: {0}")]
    Batch(Arc<Error>),
    /// The call got no answer from its batch; it may still be carried out.
    #[error("unanswered: {0}")]
    Unanswered(&'static str),
}

impl Error {
    /// Whether the data itself was refused (SQLSTATE classes 22 and 23), so that repeating cannot help.
    #[must_use]
    pub fn is_refused_data(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_refused_data(),
            Error::Refused(_) | Error::QuotaReached(_) => true,
            Error::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
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

    /// Whether a row holds what this release cannot read, as one that a newer release has written.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_unreadable(),
            Error::Unreadable(_) => true,
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
            | Error::Unlike(_) => false,
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
