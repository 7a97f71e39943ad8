//! The origin of a shadow. It is stored in the shadow's schema, so that an interrupted rebuild can be resumed.

use domain::StreamName;
use sqlx::{Executor, PgConnection};

use super::Shadow;
use crate::Error;

/// Release, schema version and starting point of a shadow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The release that builds the shadow. Another release may project events differently, so it must not resume the build.
    pub release: String,
    /// Version of the schema at which the tables were created.
    pub schema: i64,
    /// The last sequence number of each partition that the backup contains; zeros if the shadow is built from the log only.
    pub start: Vec<u64>,
    /// True if the rows of a backup are copied before the replay.
    pub is_from_backup: bool,
    /// True if all rows of the backup have been copied.
    pub is_copied: bool,
}

impl Shadow {
    /// Returns the origin of the shadow; None if the shadow has no tables.
    ///
    /// # Errors
    /// The database failed, or the shadow was created by a release that stored the origin in another form.
    pub async fn origin(&self) -> Result<Option<Origin>, Error> {
        let table: Option<String> = sqlx::query_scalar("SELECT to_regclass($1)::text")
            .bind(format!("{}.origin", self.purpose.schema()))
            .fetch_one(&self.store.pool)
            .await?;
        if table.is_none() {
            return Ok(None);
        }
        let (release, schema, is_from_backup, is_copied) =
            sqlx::query_as("SELECT release, schema, is_from_backup, is_copied FROM origin")
                .fetch_one(&self.store.pool)
                .await?;
        let start: Vec<i64> =
            sqlx::query_scalar("SELECT seq FROM start ORDER BY number").fetch_all(&self.store.pool).await?;
        let start = start.into_iter().map(i64::cast_unsigned).collect();
        Ok(Some(Origin { release, schema, start, is_from_backup, is_copied }))
    }
}

/// Creates and fills the tables of the origin in the shadow's schema. They are dropped together with the schema.
pub(super) async fn insert(connection: &mut PgConnection, origin: &Origin) -> Result<(), Error> {
    connection
        .execute(
            "CREATE TABLE origin (
               release text NOT NULL, schema bigint NOT NULL, is_from_backup boolean NOT NULL,
               is_copied boolean NOT NULL,
               -- The last row of the backup that is copied.
               copied_app bigint NOT NULL, copied_id bigint NOT NULL
             )",
        )
        .await?;
    connection
        .execute("CREATE TABLE start (number bigint PRIMARY KEY, stream text NOT NULL, seq bigint NOT NULL)")
        .await?;
    sqlx::query("INSERT INTO origin VALUES ($1, $2, $3, $4, $5, $5)")
        .bind(&origin.release)
        .bind(origin.schema)
        .bind(origin.is_from_backup)
        .bind(origin.is_copied)
        .bind(i64::MIN)
        .execute(&mut *connection)
        .await?;
    let streams = (0..).zip(&origin.start).map(|(number, _)| StreamName::Inbox(number).to_string());
    sqlx::query(
        "INSERT INTO start SELECT number, stream, seq
         FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS new (stream, seq, number)",
    )
    .bind(streams.collect::<Vec<_>>())
    .bind(origin.start.iter().map(|seq| seq.cast_signed()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
