//! Samples of a phase, one every few seconds.

use std::time::Duration;

use serde::Serialize;
use sqlx::PgConnection;
use suite::sessions;
use tokio::time::{Instant, sleep_until};

use super::meter::Meter;
use super::producer::Producer;

/// Samples of one phase.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Jobs that were accepted and not yet answered by the provider.
    depths: Vec<u64>,
    /// Dead row versions of all tables, by PostgreSQL's own estimate.
    dead_rows: Vec<u64>,
}

/// Median and largest of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) peak: u64,
}

/// Collects samples at intervals of `every` after `begin`, up to and including `until`. PostgreSQL may be unavailable meanwhile.
pub(crate) async fn collect(
    begin: Instant,
    until: Instant,
    every: Duration,
    url: &str,
    producer: &Producer,
    meter: &Meter,
) -> Samples {
    let (mut samples, mut session) = (Samples::default(), None);
    let mut next = begin + every;
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
        // After a slow sample, the times that have passed meanwhile are left out.
        let now = Instant::now();
        while next <= now {
            next += every;
        }
    }
    sleep_until(until).await;
    samples
}

async fn dead_rows(session: Option<&mut PgConnection>) -> Option<u64> {
    let sum = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables";
    let read = sqlx::query_scalar::<_, i64>(sum).fetch_one(session?);
    let rows = tokio::time::timeout(Duration::from_secs(5), read).await.ok()?.ok()?;
    u64::try_from(rows).ok()
}

impl Samples {
    pub(crate) fn depth(&self) -> Option<Spread> {
        Spread::of(&self.depths)
    }

    pub(crate) fn dead_rows(&self) -> Option<Spread> {
        Spread::of(&self.dead_rows)
    }
}

impl Spread {
    /// None without samples.
    fn of(samples: &[u64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        let median = median(&mut sorted)?;
        sorted.last().map(|peak| Spread { median, peak: *peak })
    }
}

/// Sorts the values and returns their median: if their number is even, the mean of the two in the middle. None without values.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(crate) fn median(values: &mut [u64]) -> Option<f64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower as f64 + upper as f64) / 2.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        assert_eq!(super::median(&mut [8, 1]), Some(4.5));
        assert_eq!(super::median(&mut [9, 1, 4, 2]), Some(3.0));
        assert_eq!(super::median(&mut [3, 1, 2]), Some(2.0));
    }

    #[test]
    fn without_samples_there_is_no_median_or_peak() {
        assert_eq!(super::Spread::of(&[]), None);
        assert_eq!(super::Spread::of(&[7, 2]), Some(super::Spread { median: 4.5, peak: 7 }));
    }
}
