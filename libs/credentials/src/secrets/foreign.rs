//! Refuses a master key that did not seal the secrets of this database, before it can seal secrets that the right key cannot open.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use store::Store;

use super::{MasterKey, Security, rotation};

/// Compares the key id of every sealed record. Records that were sealed with a key in `security.lost_master_keys` are ignored. The error
/// lists each other key and the number of its records.
pub async fn refuse(store: &Store, master_key: &MasterKey, security: &Security) -> anyhow::Result<()> {
    let ours: BTreeSet<String> = std::iter::once(master_key.id()).chain(master_key.previous_id()).collect();
    let mut foreign = BTreeMap::<String, u64>::new();
    for found in rotation::status(store).await? {
        let key = &found.key;
        if key != rotation::DAMAGED && !ours.contains(key) && !security.lost_master_keys.contains(key) {
            *foreign.entry(found.key).or_default() += found.records;
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    let found: Vec<_> =
        foreign.iter().map(|(key, records)| format!("{records} with master key {key}")).collect();
    let ours: Vec<_> = ours.into_iter().collect();
    bail!(
        "secrets of this database are sealed with another master key: {}; security.master_key_file holds {}. Use the \
         key of this database (as previous_master_key_file during a rotation). If that key is permanently lost, name it \
         in security.lost_master_keys and set the secrets again",
        found.join(", "),
        ours.join(" and "),
    )
}
