//! Positions from which a process reads the queue of webhooks. While a transaction stays open, PostgreSQL keeps the index entries of all
//! messages that were sent since, so a search over everything reads more and more of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::AppId;

use super::Depths;

/// Searches from a position read so far before it. Longer than most transactions that add messages.
const NEAREST: Duration = Duration::from_millis(250);
/// Time between two searches over everything, unless the last one took more than a twentieth of it.
const ALL_EACH: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// Endpoints whose position is remembered.
const MAX_ENDPOINTS: usize = 10_000;

/// Knowledge of a process about its earlier searches. A new search knows nothing, and reads everything.
///
/// A message may be due before the position of its endpoint: its transaction was committed late, or a call slot returned it. Only a search
/// over everything is certain to find it. It takes place within a second or twenty times the duration of the last one, because a search that
/// leaves it out adds a wake for it ([`Search::overdue`]).
#[derive(Debug)]
pub struct Search {
    began: Instant,
    wakes: Option<Position>,
    endpoints: HashMap<(i64, i64), Position>,
    /// Times of the wakes that were added for searches over everything, by app.
    overdue: HashMap<i64, Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Nothing was due before, at the time of the search.
    due_from: DateTime<Utc>,
    /// No running call has a claim that ends before.
    claimed_from: DateTime<Utc>,
    /// Time of the next search over everything.
    all_at: Duration,
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
        Search { began: Instant::now(), wakes: None, endpoints: HashMap::new(), overdue: HashMap::new() }
    }
}

impl Search {
    /// The next search of the endpoint reads everything.
    pub fn forget(&mut self, app: AppId, endpoint: i64) {
        self.endpoints.remove(&(app.0, endpoint));
    }

    /// Returns the time of a search that begins. All later calls for this search take it.
    pub(super) fn begin(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn wakes_from(&self, at: Duration) -> Option<DateTime<Utc>> {
        self.wakes.filter(|wakes| at < wakes.all_at).map(|wakes| wakes.due_from - NEAREST)
    }

    pub(super) fn note_wakes(&mut self, at: Duration, due_from: DateTime<Utc>) {
        let all_at = self.all_at(self.wakes, at);
        self.wakes = Some(Position { due_from, claimed_from: due_from, all_at });
    }

    pub(super) fn known(&self, at: Duration, apps: &[i64], depths: &Depths) -> Vec<Known> {
        let deep = depths.keys().map(|(app, endpoint)| (app.0, *endpoint));
        let endpoints: BTreeSet<_> = self.endpoints.keys().copied().chain(deep).collect();
        let asked = endpoints.into_iter().filter(|(app, _)| apps.binary_search(app).is_ok());
        asked
            .map(|(app, endpoint)| {
                let depth = depths.get(&(AppId(app), endpoint)).copied().unwrap_or(1);
                let position = self.endpoints.get(&(app, endpoint)).filter(|position| at < position.all_at);
                Known {
                    app,
                    endpoint,
                    depth,
                    due_from: position.map(|position| position.due_from - NEAREST),
                    claimed_from: position.map(|position| position.claimed_from),
                }
            })
            .collect()
    }

    /// Returns the apps of which a search over everything is left out now and no wake is on its way, with the time until it.
    pub(super) fn overdue(&self, at: Duration, known: &[Known]) -> Vec<(i64, Duration)> {
        let mut next = HashMap::<i64, Duration>::new();
        for Known { app, endpoint, .. } in known.iter().filter(|known| known.due_from.is_some()) {
            if let Some(position) = self.endpoints.get(&(*app, *endpoint)) {
                let latest = next.entry(*app).or_default();
                *latest = position.all_at.max(*latest);
            }
        }
        let is_on_its_way = |app: &i64| self.overdue.get(app).is_some_and(|added| *added > at);
        next.into_iter()
            .filter(|(app, _)| !is_on_its_way(app))
            .map(|(app, all_at)| (app, all_at - at))
            .collect()
    }

    pub(super) fn note_overdue(&mut self, at: Duration, added: &[(i64, Duration)]) {
        self.overdue.retain(|_, wake| *wake > at);
        self.overdue.extend(added.iter().map(|(app, wait)| (*app, at + *wait)));
    }

    pub(super) fn note_endpoint(
        &mut self,
        at: Duration,
        endpoint: (i64, i64),
        due_from: DateTime<Utc>,
        claimed_from: DateTime<Utc>,
    ) {
        if self.endpoints.len() >= MAX_ENDPOINTS {
            self.endpoints.clear();
        }
        let all_at = self.all_at(self.endpoints.get(&endpoint).copied(), at);
        self.endpoints.insert(endpoint, Position { due_from, claimed_from, all_at });
    }

    /// Returns the time of the next search over everything, at the end of one that began at `at`.
    fn all_at(&self, known: Option<Position>, at: Duration) -> Duration {
        let now = self.began.elapsed();
        match known {
            Some(position) if at < position.all_at => position.all_at,
            _ => now + ALL_EACH.max(now.saturating_sub(at) * SHARE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: i64 = 1;
    const ENDPOINT: (i64, i64) = (APP, 7);

    fn reads_all(search: &Search, at: Duration) -> bool {
        search.known(at, &[APP], &Depths::new()).iter().all(|known| known.due_from.is_none())
    }

    #[test]
    fn a_search_over_everything_takes_place_each_second_and_adds_a_wake_for_the_next_one() {
        let mut search = Search::default();
        let now = DateTime::UNIX_EPOCH;
        let at = search.begin();
        assert!(reads_all(&search, at));
        search.note_endpoint(at, ENDPOINT, now, now);

        let soon = at + ALL_EACH / 2;
        let known = search.known(soon, &[APP], &Depths::new());
        assert_eq!(known[0].due_from, Some(now - NEAREST));
        let added = search.overdue(soon, &known);
        let [(APP, wait)] = added[..] else { panic!("{added:?}") };
        search.note_overdue(soon, &added);
        search.note_endpoint(soon, ENDPOINT, now, now);

        let later = soon + ALL_EACH / 4;
        let known = search.known(later, &[APP], &Depths::new());
        assert!(search.overdue(later, &known).is_empty(), "the wake is on its way");
        assert!(reads_all(&search, soon + wait));
    }

    #[test]
    fn slow_searches_over_everything_take_at_most_a_twentieth_of_the_time() {
        let mut search = Search { began: Instant::now() - Duration::from_secs(10), ..Search::default() };
        search.note_endpoint(Duration::ZERO, ENDPOINT, DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
        assert!(!reads_all(&search, Duration::from_secs(200)));
        assert!(reads_all(&search, Duration::from_secs(220)));
        search.forget(AppId(APP), ENDPOINT.1);
        assert!(reads_all(&search, Duration::from_secs(11)));
    }
}
