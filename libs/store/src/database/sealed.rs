//! All columns that are encrypted ("sealed") with the master key. Rotating the master key encrypts each of them again.
//!
//! A table with a new column `sealed` needs an entry in [`SEALED`]. A test compares the list with the schema.

use crate::database::columns::columns;
use crate::{Database, Error};

#[derive(Clone, Copy, Debug)]
pub struct SealedTable {
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

/// The second argument is an SQL expression for the encryption context of a row. It must give the same text as the code that encrypts the
/// row.
pub const SEALED: &[SealedTable] = &[
    sealed!("app_link_key", "'link-key:' || app_id"),
    sealed!("app_secret", "'app-secret:' || app_id"),
    sealed!("provider", "'provider:' || app_id || ':' || identifier"),
    sealed!("signing_key", "'signing-key:' || app_id || ':' || kid"),
    sealed!("vapid_key", "'vapid-key:' || app_id"),
    sealed!("webhook_secret", "'webhook-secret:' || app_id || ':' || endpoint_id"),
];

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SealedRecord {
    /// `ctid` of the row: its physical position, which changes with every update.
    pub place: String,
    /// Encryption context, needed for decryption.
    pub context: String,
    pub sealed: Vec<u8>,
}

impl SealedRecord {
    /// Lower than the `ctid` of every row.
    pub const START: &'static str = "(0,0)";
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedCount {
    /// Format version and id of the master key.
    pub header: Vec<u8>,
    pub records: u64,
}

impl Database<'_> {
    pub async fn count_sealed(self, table: &SealedTable) -> Result<Vec<SealedCount>, Error> {
        let counts: Vec<(Vec<u8>, i64)> = sqlx::query_as(table.count).fetch_all(&self.0.pool).await?;
        let count = |(header, records): (_, i64)| SealedCount { header, records: records.unsigned_abs() };
        Ok(counts.into_iter().map(count).collect())
    }

    /// Lists up to `most` records after `place` whose header differs from `header`.
    pub async fn sealed_otherwise(
        self,
        table: &SealedTable,
        header: &[u8],
        place: &str,
        most: u32,
    ) -> Result<Vec<SealedRecord>, Error> {
        let records = sqlx::query_as(table.page).bind(header).bind(place).bind(i64::from(most));
        Ok(records.fetch_all(&self.0.pool).await?)
    }

    /// Skips a row if it has changed since the caller read it. Returns the number of replaced ciphertexts.
    pub async fn reseal(
        self,
        table: &SealedTable,
        records: &[(SealedRecord, Vec<u8>)],
    ) -> Result<u64, Error> {
        columns! { (record, new) in records =>
            places = record.place.as_str(),
            old = record.sealed.as_slice(),
            replacements = new.as_slice(),
        }
        let replaced = sqlx::query(table.replace)
            .bind(places)
            .bind(old)
            .bind(replacements)
            .execute(&self.0.pool)
            .await?;
        Ok(replaced.rows_affected())
    }
}
