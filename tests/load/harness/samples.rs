//! Samples of a phase, one every few seconds.

use std::time::Duration;

use sqlx::PgConnection;
use suite::sessions;
use tokio::time::{Instant, sleep_until};

use super::meter::Meter;
use super::producer::Producer;

/// Samples of one phase.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Jobs that were accepted and not yet answered by the provider.
    pub(crate) depths: Vec<u64>,
    /// Dead row versions of all tables, by PostgreSQL's own estimate.
    pub(crate) dead_rows: Vec<i64>,
}

/// Takes samples at this interval until the time has come. PostgreSQL may be unavailable meanwhile.
pub(crate) async fn until(
    until: Instant,
    every: Duration,
    url: &str,
    producer: &Producer,
    meter: &Meter,
) -> Samples {
    let (mut samples, mut session) = (Samples::default(), None);
    let mut next = Instant::now() + every;
    while next <= until {
        sleep_until(next).await;
        samples.depths.push(producer.depth());
        if session.is_none() {
            session = sessions::open(url).await.ok();
        }
        match dead_rows(session.as_mut()).await {
            Some(rows) => samples.dead_rows.push(rows),
            None => session = None,
        }
        meter.used();
        next += every;
    }
    sleep_until(until).await;
    samples
}

async fn dead_rows(session: Option<&mut PgConnection>) -> Option<i64> {
    let sum = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables";
    tokio::time::timeout(Duration::from_secs(5), sqlx::query_scalar(sum).fetch_one(session?)).await.ok()?.ok()
}

impl Samples {
    pub(crate) fn depth(&self) -> (u64, u64) {
        median_and_peak(&self.depths)
    }

    pub(crate) fn dead(&self) -> (i64, i64) {
        median_and_peak(&self.dead_rows)
    }
}

fn median_and_peak<T: Copy + Default + Ord>(samples: &[T]) -> (T, T) {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median, sorted.last().copied().unwrap_or_default())
}
