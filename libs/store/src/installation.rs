//! Which log this database belongs to.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::{StreamName, Timestamp};
use sqlx::Row;

use crate::{Error, Store};

/// A stream as the log tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownStream {
    /// Its name.
    pub name: StreamName,
    /// When the server created it: another stream under the same name has another time.
    pub created_at: Timestamp,
}

impl Store {
    /// Fixes the number of inbox partitions at the first call, and returns what was fixed.
    ///
    /// # Errors
    /// The database failed.
    pub async fn fix_partitions(&self, partitions: u32) -> Result<u32, Error> {
        sqlx::query("INSERT INTO installation (partitions) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(i32::try_from(partitions).unwrap_or(i32::MAX))
            .execute(&self.pool)
            .await?;
        self.partitions().await.map(|fixed| fixed.unwrap_or(partitions))
    }

    /// The number of inbox partitions; None before the installation was made.
    ///
    /// # Errors
    /// The database failed.
    pub async fn partitions(&self) -> Result<Option<u32>, Error> {
        let fixed: Option<i32> =
            sqlx::query_scalar("SELECT partitions FROM installation").fetch_optional(&self.pool).await?;
        Ok(fixed.and_then(|fixed| u32::try_from(fixed).ok()))
    }

    /// Records streams that the database does not know yet. Those that it knows stay as recorded.
    ///
    /// # Errors
    /// The database failed.
    pub async fn record_streams(&self, streams: &[KnownStream]) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO stream_identity (name, created_at) SELECT * FROM unnest($1::text[], $2::timestamptz[])
             ON CONFLICT DO NOTHING",
        )
        .bind(streams.iter().map(|stream| stream.name.to_string()).collect::<Vec<_>>())
        .bind(streams.iter().map(|stream| DateTime::<Utc>::from(stream.created_at)).collect::<Vec<_>>())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The creation time of every stream that belongs to this database.
    ///
    /// # Errors
    /// The database failed.
    pub async fn recorded_streams(&self) -> Result<HashMap<String, Timestamp>, Error> {
        let rows = sqlx::query("SELECT name, created_at FROM stream_identity").fetch_all(&self.pool).await?;
        rows.into_iter()
            .map(|row| {
                let created_at: DateTime<Utc> = row.try_get("created_at")?;
                Ok((row.try_get("name")?, created_at.into()))
            })
            .collect()
    }
}
