//! Quotas of bytes: how much an app may add to the log and to the database within a day.
//!
//! A gateway counts in memory. Once per second it adds its counts to the database and reads those of all gateways, so a send
//! costs no statement. All gateways together may exceed a quota by what each of them accepts within this second.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::OperationError;
use domain::{AppId, Timestamp};
use metrics::counter;
use service_kit::clock;
use service_kit::metrics::BYTES_REFUSED;
use store::Store;
use store::control::volume::{Bytes, HOURS, HourVolume, VolumeQuota};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Interval at which gateways exchange their counts through the database.
const INTERVAL: Duration = Duration::from_secs(1);
const HOUR_MILLIS: i64 = 3_600_000;
/// Fraction of the log's store that one app may fill within a day.
const SHARE_OF_STORE: u64 = 4;

/// Limits of an app in megabytes, by quota; None for the default.
pub(crate) type Limits = [Option<NonZeroU32>; VolumeQuota::ALL.len()];

#[derive(Default)]
pub(crate) struct Volumes {
    apps: Mutex<HashMap<AppId, AppVolume>>,
}

#[derive(Default)]
struct AppVolume {
    /// Volumes in the database, by hour, including what this gateway has added.
    stored: Vec<HourVolume>,
    /// Bytes that this gateway has not added yet.
    pending: Bytes,
    /// Bytes that this gateway is adding.
    underway: Bytes,
}

impl Volumes {
    /// Counts bytes of an app. 429 if the app then exceeds its quota. `store` is the size of the log's store, if it is known.
    pub(crate) fn charge(
        &self,
        app: AppId,
        quota: VolumeQuota,
        bytes: usize,
        limits: Limits,
        store: Option<u64>,
    ) -> Result<(), OperationError> {
        let mut limit = VolumeQuota::limit(limits[quota as usize]);
        if let (VolumeQuota::Sends, Some(store)) = (quota, store) {
            limit = limit.min(store / SHARE_OF_STORE);
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut apps = self.apps();
        let volume = apps.entry(app).or_default();
        match volume.wait_for(quota, bytes, limit, clock::now()) {
            None => {
                let pending = &mut volume.pending[quota as usize];
                *pending = pending.saturating_add(bytes);
                Ok(())
            }
            Some(wait) => Err(reached(quota, limit, wait)),
        }
    }

    /// Takes back bytes that were counted for a send that was not accepted.
    pub(crate) fn release(&self, app: AppId, quota: VolumeQuota, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut apps = self.apps();
        let pending = &mut apps.entry(app).or_default().pending[quota as usize];
        *pending = pending.saturating_sub(bytes);
    }

    /// Exchanges counts with the other gateways until `end`.
    pub(crate) async fn follow_until(&self, end: &CancellationToken, store: &Store) {
        let mut failing = false;
        while end.run_until_cancelled(sleep(INTERVAL)).await.is_some() {
            let exchanged = self.exchange(store).await;
            if let (Err(error), false) = (&exchanged, failing) {
                tracing::warn!(%error, "cannot store the volumes of apps; counting those of this gateway only");
            }
            failing = exchanged.is_err();
        }
        if let Err(error) = self.exchange(store).await {
            tracing::warn!(%error, "cannot store the last volumes of apps");
        }
    }

    async fn exchange(&self, store: &Store) -> Result<(), store::Error> {
        let hour = hour_of(clock::now());
        let added = self.begin(hour);
        if added.is_empty() {
            return Ok(());
        }
        let stored = store.control().add_volume(hour, &added).await;
        self.end(&added, stored.as_deref().ok());
        stored.map(drop)
    }

    /// Returns the bytes to add to the database. Forgets apps without a volume.
    fn begin(&self, hour: i64) -> Vec<(AppId, Bytes)> {
        let mut apps = self.apps();
        apps.retain(|_, volume| {
            volume.pending != Bytes::default()
                || volume.stored.iter().any(|stored| stored.hour > hour - HOURS)
        });
        let with_bytes = apps.iter_mut().filter(|(_, volume)| volume.pending != Bytes::default());
        with_bytes
            .map(|(&app, volume)| {
                volume.underway = std::mem::take(&mut volume.pending);
                (app, volume.underway)
            })
            .collect()
    }

    /// Notes the result of adding bytes: the volumes in the database, or None if nothing was added.
    fn end(&self, added: &[(AppId, Bytes)], stored: Option<&[HourVolume]>) {
        let mut apps = self.apps();
        for (app, _) in added {
            let Some(volume) = apps.get_mut(app) else { continue };
            let underway = std::mem::take(&mut volume.underway);
            match stored {
                Some(stored) => {
                    volume.stored = stored.iter().filter(|stored| stored.app == *app).copied().collect();
                }
                None => {
                    for (pending, bytes) in volume.pending.iter_mut().zip(underway) {
                        *pending = pending.saturating_add(bytes);
                    }
                }
            }
        }
    }

    fn apps(&self) -> MutexGuard<'_, HashMap<AppId, AppVolume>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AppVolume {
    /// Returns None if the app may add `bytes` now, or else the time until enough hours have passed.
    fn wait_for(&self, quota: VolumeQuota, bytes: i64, limit: i64, now: Timestamp) -> Option<Duration> {
        let index = quota as usize;
        let oldest = hour_of(now) - HOURS + 1;
        let mut hours: Vec<(i64, i64)> = self
            .stored
            .iter()
            .filter(|stored| stored.hour >= oldest)
            .map(|stored| (stored.hour, stored.bytes[index]))
            .collect();
        let unstored = self.pending[index].saturating_add(self.underway[index]);
        let stored = hours.iter().fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let mut excess = stored.saturating_add(unstored).saturating_add(bytes).saturating_sub(limit);
        if excess <= 0 {
            return None;
        }
        hours.sort_unstable();
        let mut until = hour_of(now) + HOURS;
        for (hour, freed) in hours {
            excess = excess.saturating_sub(freed);
            if excess <= 0 {
                until = hour + HOURS;
                break;
            }
        }
        let millis = (until * HOUR_MILLIS).saturating_sub(now.millis());
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }
}

fn hour_of(time: Timestamp) -> i64 {
    time.millis().div_euclid(HOUR_MILLIS)
}

fn reached(quota: VolumeQuota, limit: i64, wait: Duration) -> OperationError {
    counter!(BYTES_REFUSED, "quota" => quota.as_str()).increment(1);
    let message = format!(
        "the app has reached its quota of {limit} bytes of {} within 24 hours; repeat the request later, or let an operator \
         raise the quota with `tidings app set APP {}=N`",
        quota.as_str(),
        quota.switch()
    );
    OperationError::Volume { message, wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: AppId = AppId(1);
    const SENDS: VolumeQuota = VolumeQuota::Sends;

    fn at(hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_millis(hour * HOUR_MILLIS + minute * 60_000)
    }

    fn stored(hour: i64, sends: i64) -> HourVolume {
        HourVolume { app: APP, hour, bytes: [sends, 0] }
    }

    #[test]
    fn an_app_waits_until_enough_of_its_hours_are_older_than_a_day() {
        let volume = AppVolume {
            stored: vec![stored(101, 30), stored(100, 50), stored(70, 1_000)],
            pending: [10, 0],
            underway: [5, 0],
        };
        assert_eq!(volume.wait_for(SENDS, 5, 100, at(110, 30)), None);
        let minutes = |wait: Option<Duration>| wait.unwrap().as_secs() / 60;
        assert_eq!(minutes(volume.wait_for(SENDS, 6, 100, at(110, 30))), 13 * 60 + 30);
        assert_eq!(minutes(volume.wait_for(SENDS, 70, 100, at(110, 30))), 14 * 60 + 30);
        assert_eq!(minutes(volume.wait_for(SENDS, 101, 100, at(110, 30))), 23 * 60 + 30);
        assert_eq!(volume.wait_for(SENDS, 6, 100, at(124, 0)), None);
        assert_eq!(volume.wait_for(VolumeQuota::Files, 100, 100, at(110, 30)), None);
    }

    #[test]
    fn bytes_count_once_whether_the_database_stores_them_or_fails() {
        let volumes = Volumes::default();
        let hour = hour_of(clock::now());
        let limits = [NonZeroU32::new(1), None];
        let charge = |bytes| volumes.charge(APP, SENDS, bytes, limits, None).is_ok();
        assert!(charge(600_000));
        let added = volumes.begin(hour);
        assert_eq!(added, [(APP, [600_000, 0])]);
        assert!(!charge(500_000), "bytes under way count");
        volumes.end(&added, None);
        assert!(!charge(500_000), "after a failure too");
        assert!(charge(100_000));
        let added = volumes.begin(hour);
        assert_eq!(added, [(APP, [700_000, 0])]);
        // Another gateway has added 200,000 bytes.
        volumes.end(&added, Some(&[stored(hour, 900_000)]));
        assert!(!charge(200_000));
        assert!(charge(100_000));
        volumes.release(APP, SENDS, 100_000);
        assert!(charge(100_000));
        assert!(volumes.charge(APP, SENDS, 1, [None, None], Some(4)).is_err(), "a quarter of the store");
    }
}
