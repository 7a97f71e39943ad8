//! Everything that is sealed under the master key, in one table, for what concerns all of it: exchanging the key.
//!
//! Whoever adds a column named `sealed` adds a row to [`SEALED`]; a test compares the two.

use sqlx::Row;

use crate::{Error, Store};

/// A table with a column `sealed`, and the context in which its rows are sealed.
#[derive(Clone, Copy, Debug)]
pub struct SealedTable {
    /// The table.
    pub name: &'static str,
    count: &'static str,
    page: &'static str,
    replace: &'static str,
}

macro_rules! sealed {
    ($name:literal, $context:literal) => {
        SealedTable {
            name: $name,
            count: concat!(
                "SELECT substring(sealed from 1 for 9) AS header, count(*) AS records FROM ",
                $name,
                " WHERE octet_length(sealed) > 0 GROUP BY 1 ORDER BY 1"
            ),
            page: concat!(
                "SELECT ctid::text AS place, ",
                $context,
                " AS context, sealed FROM ",
                $name,
                " WHERE octet_length(sealed) > 0 AND substring(sealed from 1 for 9) <> $1 AND ctid > $2::tid
                 ORDER BY ctid LIMIT $3"
            ),
            replace: concat!(
                "UPDATE ",
                $name,
                " AS kept SET sealed = new.sealed
                 FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS new (place, old, sealed)
                 WHERE kept.ctid = new.place::tid AND kept.sealed = new.old"
            ),
        }
    };
}

/// Every table with sealed rows, and how the context of a row is made (as where it is sealed).
pub const SEALED: &[SealedTable] = &[
    sealed!("app_link_key", "'link-key:' || app_id"),
    sealed!("app_secret", "'app-secret:' || app_id"),
    sealed!("provider", "'provider:' || app_id || ':' || identifier"),
    sealed!("signing_key", "'signing-key:' || app_id || ':' || kid"),
    sealed!("vapid_key", "'vapid-key:' || app_id"),
    sealed!("webhook_secret", "'webhook-secret:' || app_id || ':' || endpoint_id"),
];

/// A sealed record, where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRecord {
    /// Where the row lay, which changes with the row.
    pub place: String,
    /// The record that it is bound to.
    pub context: String,
    /// As it is sealed.
    pub sealed: Vec<u8>,
}

impl SealedRecord {
    /// Before every row of a table.
    pub const START: &'static str = "(0,0)";
}

/// How many records of a table begin with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedCount {
    /// Version and id of the master key.
    pub header: Vec<u8>,
    /// Records with it.
    pub records: u64,
}

impl Store {
    /// The records of a table by the key that sealed them.
    ///
    /// # Errors
    /// The database failed.
    pub async fn count_sealed(&self, table: &SealedTable) -> Result<Vec<SealedCount>, Error> {
        let rows = sqlx::query(table.count).fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                let records: i64 = row.try_get("records")?;
                Ok(SealedCount { header: row.try_get("header")?, records: records.unsigned_abs() })
            })
            .collect()
    }

    /// Up to `most` records that do not begin with `header`, from after `place` on.
    ///
    /// # Errors
    /// The database failed.
    pub async fn sealed_otherwise(
        &self,
        table: &SealedTable,
        header: &[u8],
        place: &str,
        most: u32,
    ) -> Result<Vec<SealedRecord>, Error> {
        let rows = sqlx::query(table.page)
            .bind(header)
            .bind(place)
            .bind(i64::from(most))
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(SealedRecord {
                    place: row.try_get("place")?,
                    context: row.try_get("context")?,
                    sealed: row.try_get("sealed")?,
                })
            })
            .collect()
    }

    /// Puts each new text in place of the old one, where that is still there, and returns how many were. What was
    /// changed meanwhile stays as it is now.
    ///
    /// # Errors
    /// The database failed; nothing was changed.
    pub async fn reseal(
        &self,
        table: &SealedTable,
        records: &[(SealedRecord, Vec<u8>)],
    ) -> Result<u64, Error> {
        let replaced = sqlx::query(table.replace)
            .bind(records.iter().map(|(record, _)| record.place.as_str()).collect::<Vec<_>>())
            .bind(records.iter().map(|(record, _)| record.sealed.as_slice()).collect::<Vec<_>>())
            .bind(records.iter().map(|(_, new)| new.as_slice()).collect::<Vec<_>>())
            .execute(&self.pool)
            .await?;
        Ok(replaced.rows_affected())
    }
}
