use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use sqlx::migrate::MigrateError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("database: {}", without_data(.0))]
    Database(sqlx::Error),
    #[error("migration: {0}")]
    Migration(#[from] MigrateError),
    #[error("unreadable row: {0}")]
    Unreadable(String),
    /// Nothing was written.
    #[error("{0}")]
    Refused(#[from] domain::profile::Refusal),
    /// Nothing was written.
    #[error("the app's quota of {0} is reached")]
    QuotaReached(crate::control::quota::Quota),
    /// The shadow tables did not replace the live tables.
    #[error("the schema was migrated while the new tables were built")]
    SchemaChanged,
    /// All callers of a batch get the same error, even if the data of only one caller caused it.
    #[error("the batch that contained this call failed: {0}")]
    Batch(Arc<Error>),
    #[error(
        "the pooler at this address shares sessions between clients: switch it to session mode, or connect to PostgreSQL \
         itself (Tidings needs its own sessions for time limits, locks and prepared statements)"
    )]
    SharedSessions,
    /// The statement may still run.
    #[error("the call did not complete: {0}")]
    Unanswered(&'static str),
}

// `#[from]` would also make the sqlx error the `source()` of this error. The text of the sqlx error, which may contain
// personal data, would then be printed.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Error::Database(error)
    }
}

impl From<domain::problem::UnknownName> for Error {
    fn from(error: domain::problem::UnknownName) -> Self {
        Error::Unreadable(error.to_string())
    }
}

impl From<domain::event::DecodeError> for Error {
    fn from(error: domain::event::DecodeError) -> Self {
        Error::Unreadable(error.to_string())
    }
}

/// Never happens in practice, because this release can encode all of its messages.
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::Unreadable(error.to_string())
    }
}

/// Formats an error for logs without personal data. PostgreSQL and sqlx quote values that they reject or cannot decode, such as an address
/// or a message body.
fn without_data(error: &sqlx::Error) -> Cow<'static, str> {
    match error {
        sqlx::Error::Database(refused) => match refused.code().filter(|code| is_about_data(code)) {
            Some(code) => {
                let constraint = refused.constraint().map(|name| format!(", constraint {name}"));
                format!("PostgreSQL rejected the data: SQLSTATE {code}{}", constraint.unwrap_or_default())
                    .into()
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
    /// Returns true if the data itself was rejected, so that a retry cannot help.
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

    /// Returns true if a row that the statement refers to is missing (SQLSTATE 23503), for instance because the user has just been erased.
    /// A retry can help, because it reads the current rows.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_overtaken(),
            Error::Database(sqlx::Error::Database(error)) => error.is_foreign_key_violation(),
            _ => false,
        }
    }

    /// Returns true after `lock_timeout` (SQLSTATE 55P03) and after a deadlock (40P01).
    #[must_use]
    pub fn is_lock_timeout(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_lock_timeout(),
            Error::Database(sqlx::Error::Database(error))
            | Error::Migration(
                MigrateError::Execute(sqlx::Error::Database(error))
                | MigrateError::ExecuteMigration(sqlx::Error::Database(error), _),
            ) => error.code().is_some_and(|code| code == "55P03" || code == "40P01"),
            _ => false,
        }
    }

    /// Returns true if no answer came in time, so that the statement may still run.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_unanswered(),
            Error::Unanswered(_) => true,
            _ => false,
        }
    }

    /// For instance because a newer release wrote the row.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        match self {
            Error::Batch(cause) => cause.is_unreadable(),
            Error::Unreadable(_) => true,
            _ => false,
        }
    }

    /// Returns true if connecting again cannot help: the URL, the login (SQLSTATE class 28), the database name (3D000) or the certificate
    /// is wrong, or a pooler shares sessions.
    #[must_use]
    pub fn is_permanent_refusal(&self) -> bool {
        match self {
            Error::SharedSessions => true,
            Error::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| code.starts_with("28") || code == "3D000")
            }
            Error::Database(sqlx::Error::Configuration(_)) => true,
            // The certificate is wrong if the I/O error is `InvalidData`. Any other I/O error means that the connection broke
            // during the handshake.
            Error::Database(sqlx::Error::Tls(cause)) => {
                let io = cause.downcast_ref::<io::Error>();
                io.is_none_or(|error| error.kind() == io::ErrorKind::InvalidData)
            }
            _ => false,
        }
    }

    /// Returns true if a retry may help.
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
            | Error::SchemaChanged => false,
            // These SQLSTATE classes are for failures of connections, transactions, locks and I/O, for insufficient
            // resources, and for a server that is stopping or read-only.
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
