//! The connection pool.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::Error;

/// How to reach the database.
#[derive(Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// Upper bound of the pool.
    pub max_connections: u32,
}

/// A pool of connections and every statement that runs on them.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: PgPool,
}

impl Store {
    /// Opens the pool and checks that a connection can be had.
    ///
    /// # Errors
    /// The URL is malformed, or nobody answers there.
    pub async fn connect(settings: &Settings) -> Result<Store, Error> {
        let options = PgConnectOptions::from_str(&settings.url)?.application_name("tidings").options([
            ("statement_timeout", "30s"),
            ("lock_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "30s"),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(Duration::from_secs(3))
            .connect_with(options)
            .await?;
        Ok(Store { pool })
    }

    /// Asks the database for a sign of life.
    ///
    /// # Errors
    /// It did not answer within the pool's time limit.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Brings the schema up to date. Safe to run twice and by two processes at once: it holds an advisory lock.
    ///
    /// # Errors
    /// A migration failed, or one that ran before has been changed since.
    pub async fn migrate(&self) -> Result<(), Error> {
        sqlx::migrate!().run(&self.pool).await?;
        Ok(())
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
