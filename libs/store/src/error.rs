//! What can go wrong with the database.

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
    /// The batch that this call was part of failed; its cause is told once, in the log.
    #[error("the batch that this was part of failed: {0}")]
    Batch(String),
}

impl Error {
    /// Whether the data itself was refused (SQLSTATE classes 22 and 23), so that repeating cannot help.
    #[must_use]
    pub fn is_refused_data(&self) -> bool {
        let Error::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
    }
}
