//! Age of the oldest transaction because of which PostgreSQL keeps old versions of rows.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use metrics::gauge;
use service_kit::Context;
use service_kit::metrics::DATABASE_OLDEST_SNAPSHOT;
use store::database::snapshot::{HolderKind, SnapshotHolder};

/// Holders, and when this process first saw them. PostgreSQL does not report the start of every holder.
#[derive(Debug, Default)]
pub(crate) struct OldSnapshots {
    seen: HashMap<String, Instant>,
}

impl OldSnapshots {
    pub(crate) async fn measure(&mut self, context: &Context) -> Result<(), store::Error> {
        let holders = context.store.database().snapshot_holders().await?;
        let oldest = self.oldest(&holders, tokio::time::Instant::now().into_std());
        for kind in HolderKind::ALL {
            let age = oldest.get(&kind).copied().unwrap_or_default();
            gauge!(DATABASE_OLDEST_SNAPSHOT, "holder" => kind.as_str()).set(age.as_secs_f64());
        }
        Ok(())
    }

    fn oldest(&mut self, holders: &[SnapshotHolder], now: Instant) -> BTreeMap<HolderKind, Duration> {
        let (mut seen, mut oldest) = (HashMap::new(), BTreeMap::<_, Duration>::new());
        for holder in holders {
            let since = self.seen.get(&holder.key).copied().unwrap_or(now);
            seen.insert(holder.key.clone(), since);
            let age = holder.age.unwrap_or_default().max(now - since);
            let highest = oldest.entry(holder.kind).or_default();
            *highest = age.max(*highest);
        }
        self.seen = seen;
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(key: &str, age: Option<u64>) -> SnapshotHolder {
        let age = age.map(Duration::from_secs);
        SnapshotHolder { kind: HolderKind::Replication, key: key.to_owned(), age }
    }

    #[test]
    fn a_snapshot_without_a_start_ages_from_its_first_sight_until_it_moves() {
        let (mut snapshots, start) = (OldSnapshots::default(), Instant::now());
        let mut seconds = |holders: &[SnapshotHolder], after| {
            let oldest = snapshots.oldest(holders, start + Duration::from_secs(after));
            oldest.get(&HolderKind::Replication).map(Duration::as_secs)
        };
        assert_eq!(seconds(&[], 0), None);
        assert_eq!(seconds(&[holder("slot 7", None)], 0), Some(0));
        assert_eq!(seconds(&[holder("slot 7", None)], 600), Some(600));
        assert_eq!(seconds(&[holder("slot 7", None), holder("11", Some(900))], 601), Some(900));
        assert_eq!(seconds(&[holder("slot 7", None), holder("slot 8", None)], 602), Some(602));
        assert_eq!(seconds(&[holder("slot 8", None)], 612), Some(10));
        assert_eq!(seconds(&[], 613), None);
        assert_eq!(seconds(&[holder("slot 8", None)], 614), Some(0));
    }
}
