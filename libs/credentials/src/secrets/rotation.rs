//! Exchanging the master key: everything that another key sealed is sealed anew, a bounded batch at a time.
//!
//! It can end anywhere and begin again, beside services at work: each record is replaced only where it still is what was
//! read, and what was done is known by its key.

use store::Store;
use store::database::sealed::{SEALED, SealedRecord, SealedTable};

use super::{HEADER_LENGTH, MasterKey, hex};

/// Stands for the key of a record that is too short to name one.
pub const DAMAGED: &str = "damaged";
/// Records of one statement.
const BATCH: u32 = 200;

/// What became of the records of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// The table.
    pub table: &'static str,
    /// Sealed anew by this run.
    pub records: u64,
    /// Records that no key at hand opens, by their contexts, and why.
    pub unreadable: Vec<(String, String)>,
}

/// The records of a table under one master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderKey {
    /// The table.
    pub table: &'static str,
    /// Id of the key, or [`DAMAGED`].
    pub key: String,
    /// How many there are.
    pub records: u64,
}

/// Seals everything anew that is not sealed with the primary key, and tells of each batch: the table, and how many of its
/// records were sealed anew so far.
///
/// # Errors
/// The database failed. What was done is done; run it again.
pub async fn reseal_all(
    store: &Store,
    master_key: &MasterKey,
    mut progress: impl FnMut(&'static str, u64),
) -> Result<Vec<Resealed>, store::Error> {
    let mut tables = Vec::with_capacity(SEALED.len());
    for table in SEALED {
        let mut resealed = Resealed { table: table.name, ..Resealed::default() };
        // Somebody may have written before the place where we are: until a round finds nothing to do.
        while round(store, master_key, table, &mut resealed, &mut progress).await? {}
        tables.push(resealed);
    }
    Ok(tables)
}

/// Whether anything was found that can be sealed anew.
async fn round(
    store: &Store,
    master_key: &MasterKey,
    table: &SealedTable,
    resealed: &mut Resealed,
    progress: &mut impl FnMut(&'static str, u64),
) -> Result<bool, store::Error> {
    let header = master_key.header();
    let mut place = SealedRecord::START.to_owned();
    let mut found = false;
    resealed.unreadable.clear();
    loop {
        let page = store.sealed_otherwise(table, &header, &place, BATCH).await?;
        let Some(last) = page.last() else { return Ok(found) };
        place.clone_from(&last.place);
        let mut records = Vec::with_capacity(page.len());
        for record in page {
            match master_key.reseal(&record.context, &record.sealed) {
                Ok(new) => records.push((record, new)),
                Err(error) => resealed.unreadable.push((record.context, error.to_string())),
            }
        }
        if !records.is_empty() {
            found = true;
            resealed.records += store.reseal(table, &records).await?;
            progress(resealed.table, resealed.records);
        }
    }
}

/// How many records are not sealed with the primary key: zero says that no other key is needed. A service that has the
/// old key alone may have written while [`reseal_all`] was at work, where that had been already.
///
/// # Errors
/// The database failed.
pub async fn left(store: &Store, master_key: &MasterKey) -> Result<u64, store::Error> {
    let primary = master_key.id();
    Ok(status(store).await?.iter().filter(|found| found.key != primary).map(|found| found.records).sum())
}

/// Which keys sealed what.
///
/// # Errors
/// The database failed.
pub async fn status(store: &Store) -> Result<Vec<UnderKey>, store::Error> {
    let mut found = Vec::new();
    for table in SEALED {
        for count in store.count_sealed(table).await? {
            let key = match count.header.get(1..HEADER_LENGTH) {
                Some(id) => hex(id),
                None => DAMAGED.to_owned(),
            };
            found.push(UnderKey { table: table.name, key, records: count.records });
        }
    }
    Ok(found)
}
