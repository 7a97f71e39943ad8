//! Rotation of the master key. It can be interrupted at any point and run again, while services run, because a record is replaced only if
//! it has not changed since it was read.

use store::Store;
use store::database::sealed::{SEALED, SealedRecord, SealedTable};

use super::{HEADER_LENGTH, MasterKey, hex};

/// Stands for the key id of a record that is too short to contain one.
pub const DAMAGED: &str = "damaged";
const BATCH: u32 = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResealReport {
    pub table: &'static str,
    pub records: u64,
    /// Contexts of records that no configured key can open, each with the error.
    pub unreadable: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    pub table: &'static str,
    pub key: String,
    pub records: u64,
}

/// `progress` gets the table and the number of its records resealed so far. Completed batches survive an error, and another call continues.
pub async fn reseal_all(
    store: &Store,
    master_key: &MasterKey,
    mut progress: impl FnMut(&'static str, u64),
) -> Result<Vec<ResealReport>, store::Error> {
    let mut tables = Vec::with_capacity(SEALED.len());
    for table in SEALED {
        let mut resealed = ResealReport { table: table.name, ..ResealReport::default() };
        // While a round runs, a service may write a record that the round has already passed. So repeat rounds until one finds no
        // record to reseal.
        while round(store, master_key, table, &mut resealed, &mut progress).await? {}
        tables.push(resealed);
    }
    Ok(tables)
}

async fn round(
    store: &Store,
    master_key: &MasterKey,
    table: &SealedTable,
    resealed: &mut ResealReport,
    progress: &mut impl FnMut(&'static str, u64),
) -> Result<bool, store::Error> {
    let header = master_key.header();
    let mut place = SealedRecord::START.to_owned();
    let mut found = false;
    resealed.unreadable.clear();
    loop {
        let page = store.database().sealed_otherwise(table, &header, &place, BATCH).await?;
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
            resealed.records += store.database().reseal(table, &records).await?;
            progress(resealed.table, resealed.records);
        }
    }
}

/// Counts records that are not sealed with the primary key. At zero, no other key is needed. It may be above zero after [`reseal_all`],
/// because a service with only the old key may have written further records.
pub async fn left(store: &Store, master_key: &MasterKey) -> Result<u64, store::Error> {
    let primary = master_key.id();
    Ok(status(store).await?.iter().filter(|found| found.key != primary).map(|found| found.records).sum())
}

pub async fn status(store: &Store) -> Result<Vec<KeyUsage>, store::Error> {
    let mut found = Vec::new();
    for table in SEALED {
        for count in store.database().count_sealed(table).await? {
            let key = match count.header.get(1..HEADER_LENGTH) {
                Some(id) => hex(id),
                None => DAMAGED.to_owned(),
            };
            found.push(KeyUsage { table: table.name, key, records: count.records });
        }
    }
    Ok(found)
}
