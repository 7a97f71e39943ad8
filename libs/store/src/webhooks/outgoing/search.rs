//! Positions from which a process reads the queue of webhooks. While a transaction stays open, PostgreSQL keeps the index entries of all
//! messages that were sent since, so a search from the beginning reads more and more of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::AppId;

use super::Depths;

/// Every search reads so far before its position. Longer than most transactions that add messages.
const NEAREST: Duration = Duration::from_millis(250);
/// Each rung reads four times as far before the position as the previous one. A search over everything is the rung after the last.
const RUNGS: u32 = 6;
/// Searches from this distance on also count the claims that end before their known time.
const ALL_CLAIMS: Duration = Duration::from_secs(16);
/// Endpoints whose position is remembered.
const MAX_ENDPOINTS: usize = 10_000;

/// Knowledge of a process about its earlier searches. A new search knows nothing, and reads everything.
///
/// A message whose due time lies before the position, because its transaction was committed late or because a call slot returned it,
/// is found within the time by which it is late, and after 17 minutes at the latest.
#[derive(Debug)]
pub struct Search {
    began: Instant,
    wakes: Option<Position>,
    endpoints: HashMap<(i64, i64), Position>,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Nothing was due before, at the time of the search.
    due_from: DateTime<Utc>,
    /// No running call has a claim that ends before.
    claimed_from: DateTime<Utc>,
    searched_at: Duration,
}

/// One element for each endpoint of which something is known. A missing time means that nothing is known.
pub(super) struct Known {
    pub(super) app: i64,
    pub(super) endpoint: i64,
    pub(super) depth: u32,
    pub(super) due_from: Option<DateTime<Utc>>,
    pub(super) claimed_from: Option<DateTime<Utc>>,
}

impl Default for Search {
    fn default() -> Search {
        Search { began: Instant::now(), wakes: None, endpoints: HashMap::new() }
    }
}

impl Search {
    pub(super) fn wakes_from(&self) -> Option<DateTime<Utc>> {
        let wakes = self.wakes?;
        Some(wakes.due_from - lookback(wakes.searched_at, self.began.elapsed())?)
    }

    pub(super) fn note_wakes(&mut self, due_from: DateTime<Utc>) {
        let searched_at = self.began.elapsed();
        self.wakes = Some(Position { due_from, claimed_from: due_from, searched_at });
    }

    pub(super) fn known(&self, apps: &[i64], depths: &Depths) -> Vec<Known> {
        let deep = depths.keys().map(|(app, endpoint)| (app.0, *endpoint));
        let endpoints: BTreeSet<_> = self.endpoints.keys().copied().chain(deep).collect();
        let asked = endpoints.into_iter().filter(|(app, _)| apps.binary_search(app).is_ok());
        let now = self.began.elapsed();
        asked
            .map(|(app, endpoint)| {
                let depth = depths.get(&(AppId(app), endpoint)).copied().unwrap_or(1);
                let position = self.endpoints.get(&(app, endpoint));
                let back = position.and_then(|position| lookback(position.searched_at, now));
                let (due_from, claimed_from) = match (position, back) {
                    (Some(position), Some(back)) => {
                        let claimed_from = (back < ALL_CLAIMS).then_some(position.claimed_from);
                        (Some(position.due_from - back), claimed_from)
                    }
                    _ => (None, None),
                };
                Known { app, endpoint, depth, due_from, claimed_from }
            })
            .collect()
    }

    pub(super) fn note_endpoint(
        &mut self,
        endpoint: (i64, i64),
        due_from: DateTime<Utc>,
        claimed_from: DateTime<Utc>,
    ) {
        if self.endpoints.len() >= MAX_ENDPOINTS {
            self.endpoints.clear();
        }
        let searched_at = self.began.elapsed();
        self.endpoints.insert(endpoint, Position { due_from, claimed_from, searched_at });
    }
}

/// Returns how far before its position a search reads at `now`; None if it reads everything. A rung is read again after a quarter of its
/// distance.
fn lookback(searched_at: Duration, now: Duration) -> Option<Duration> {
    let mut back = NEAREST;
    for _ in 0..=RUNGS {
        let period = |at: Duration| at.as_millis() / back.as_millis();
        if period(now) == period(searched_at) {
            return Some(back);
        }
        back *= 4;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_message_is_found_within_the_time_by_which_it_is_late() {
        for late in [200, 900, 10_000, 100_000, 1_000_000, 100_000_000] {
            let (late, limit) = (Duration::from_millis(late), Duration::from_secs(1_025));
            let mut searched_at = Duration::from_secs(7);
            let visible_at = searched_at;
            let found_at = loop {
                let now = searched_at + Duration::from_millis(10);
                let back = lookback(searched_at, now);
                searched_at = now;
                // The position moves with the time of the searches.
                if back.is_none_or(|back| now - visible_at + late <= back) {
                    break now;
                }
            };
            let waited = found_at - visible_at;
            assert!(waited <= late.min(limit), "{late:?}: {waited:?}");
        }
    }

    #[test]
    fn far_searches_are_rare() {
        let mut read = Duration::ZERO;
        let hour = (0..360_000).map(|n| Duration::from_millis(10 * n));
        let mut all = 0;
        for now in hour {
            match lookback(now, now + Duration::from_millis(10)) {
                Some(back) => read += back,
                None => all += 1,
            }
        }
        assert_eq!(all, 3);
        assert!(read < Duration::from_secs(3_600 * 50), "{read:?}");
    }
}
