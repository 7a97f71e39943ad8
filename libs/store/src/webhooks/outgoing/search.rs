//! Positions from which a process reads the queue of webhooks. While a transaction stays open, PostgreSQL keeps the index entries of all
//! messages that were sent since, so a full search reads more and more of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};

use super::{Depths, EndpointRead};
use crate::database::instant::instant;

/// Overlap: a search from a position starts this much earlier. Longer than most transactions that add messages.
const NEAREST: Duration = Duration::from_millis(250);
/// Time between two full searches of an endpoint, unless full searches are slow.
const FULL_EACH: Duration = Duration::from_secs(1);
/// Full searches use at most this fraction of the time.
const SHARE: u32 = 20;
/// Endpoints whose position is remembered.
const MAX_ENDPOINTS: usize = 10_000;

/// Positions of a process's earlier searches. A new search knows none, and reads everything.
///
/// A message may be due before the position of its endpoint, because its transaction was committed late, or because another process returned
/// it. Only a full search is certain to find it. A search that is not full adds a wake for the next full one ([`Search::overdue`]), so such a
/// message is found even in an idle app.
#[derive(Debug)]
pub struct Search {
    began: Instant,
    wakes: Option<Wakes>,
    endpoints: HashMap<(i64, i64), Position>,
    /// Times of the wakes that were added for full searches, by app.
    overdue: HashMap<i64, Duration>,
    /// Time before which no endpoint with a known position is searched in full.
    full_from: Duration,
    /// Full searches are slow: each reads the endpoints of one app, so that the others do not wait for all of them.
    is_slow: bool,
}

#[derive(Clone, Copy, Debug)]
struct Wakes {
    due_from: DateTime<Utc>,
    /// Time of the next full search.
    full_at: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Earliest due time that the search found.
    due_from: DateTime<Utc>,
    /// No running call has a claim that ends before.
    claimed_from: DateTime<Utc>,
    /// Earliest time of the next full search.
    full_at: Duration,
}

/// One element for each endpoint of which something is known. A missing time means that nothing is known, or that the search is full.
pub(super) struct Known {
    pub(super) app: i64,
    pub(super) endpoint: i64,
    pub(super) depth: u32,
    pub(super) due_from: Option<DateTime<Utc>>,
    pub(super) claimed_from: Option<DateTime<Utc>>,
}

impl Default for Search {
    fn default() -> Search {
        Search {
            began: Instant::now(),
            wakes: None,
            endpoints: HashMap::new(),
            overdue: HashMap::new(),
            full_from: Duration::ZERO,
            is_slow: false,
        }
    }
}

impl Search {
    /// Notes that a call slot of this process returned messages, of which the earliest was due at this time.
    pub fn note_returned(&mut self, (app, endpoint): (AppId, i64), due_at: Timestamp) {
        if let Some(position) = self.endpoints.get_mut(&(app.0, endpoint)) {
            position.due_from = position.due_from.min(instant(due_at));
        }
    }

    /// Returns the time of a search that begins. All later calls for this search take it.
    pub(super) fn begin(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn wakes_from(&self, at: Duration) -> Option<DateTime<Utc>> {
        self.wakes.filter(|wakes| at < wakes.full_at).map(|wakes| wakes.due_from - NEAREST)
    }

    /// Notes the end of a search of wakes that began at `at` and took until `ended`.
    pub(super) fn note_wakes(&mut self, (at, ended): (Duration, Duration), due_from: DateTime<Utc>) {
        let full_at = match self.wakes {
            Some(wakes) if at < wakes.full_at => wakes.full_at,
            _ => ended + FULL_EACH.max(ended.saturating_sub(at) * SHARE),
        };
        self.wakes = Some(Wakes { due_from, full_at });
    }

    pub(super) fn known(&self, at: Duration, apps: &[i64], depths: &Depths) -> Vec<Known> {
        let is_asked = |app: &i64| apps.binary_search(app).is_ok();
        let due = self
            .endpoints
            .iter()
            .filter(|((app, _), position)| is_asked(app) && self.full_from.max(position.full_at) <= at);
        let next = due.min_by_key(|((app, _), position)| (position.full_at, *app)).map(|((app, _), _)| *app);
        let is_full = |app: i64, position: &Position| {
            self.full_from.max(position.full_at) <= at && (!self.is_slow || next == Some(app))
        };
        let deep = depths.keys().map(|(app, endpoint)| (app.0, *endpoint));
        let endpoints: BTreeSet<_> = self.endpoints.keys().copied().chain(deep).collect();
        let asked = endpoints.into_iter().filter(|(app, _)| is_asked(app));
        asked
            .map(|(app, endpoint)| {
                let depth = depths.get(&(AppId(app), endpoint)).copied().unwrap_or(1);
                let position =
                    self.endpoints.get(&(app, endpoint)).filter(|position| !is_full(app, position));
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

    /// Returns the apps that this search does not read in full and that have no wake for their next full search yet, with the time until
    /// then.
    pub(super) fn overdue(&self, at: Duration, known: &[Known]) -> Vec<(i64, Duration)> {
        let mut next = HashMap::<i64, Duration>::new();
        for Known { app, endpoint, .. } in known.iter().filter(|known| known.due_from.is_some()) {
            if let Some(position) = self.endpoints.get(&(*app, *endpoint)) {
                let full_at = self.full_from.max(position.full_at);
                let latest = next.entry(*app).or_default();
                *latest = if full_at > at { full_at } else { at + FULL_EACH }.max(*latest);
            }
        }
        let is_on_its_way = |app: &i64| self.overdue.get(app).is_some_and(|added| *added > at);
        next.into_iter()
            .filter(|(app, _)| !is_on_its_way(app))
            .map(|(app, full_at)| (app, full_at.saturating_sub(at)))
            .collect()
    }

    pub(super) fn note_overdue(&mut self, at: Duration, added: &[(i64, Duration)]) {
        self.overdue.retain(|_, wake| *wake > at);
        self.overdue.extend(added.iter().map(|(app, wait)| (*app, at + *wait)));
    }

    /// Notes the end of a search that began at `at` with the known endpoints and read those in `read`.
    pub(super) fn note(&mut self, at: Duration, known: &[Known], read: Vec<EndpointRead>) {
        let now = self.began.elapsed();
        let from_position: HashSet<(i64, i64)> = known
            .iter()
            .filter(|known| known.due_from.is_some())
            .map(|known| (known.app, known.endpoint))
            .collect();
        let was_full = known.len() > from_position.len()
            || read.iter().any(|(endpoint, ..)| !from_position.contains(endpoint));
        if was_full {
            self.note_full(at, now);
        }
        for (endpoint, due_from, claimed_from) in read {
            if self.endpoints.len() >= MAX_ENDPOINTS && !self.endpoints.contains_key(&endpoint) {
                self.endpoints.clear();
            }
            let known = self.endpoints.get(&endpoint).filter(|_| from_position.contains(&endpoint));
            let full_at = known.map_or(now + FULL_EACH, |position| position.full_at);
            self.endpoints.insert(endpoint, Position { due_from, claimed_from, full_at });
        }
    }

    /// Notes that a search failed, perhaps because it took too long.
    pub(super) fn note_failed(&mut self, at: Duration) {
        self.note_full(at, self.began.elapsed());
    }

    fn note_full(&mut self, at: Duration, now: Duration) {
        let rest = now.saturating_sub(at) * SHARE;
        self.full_from = now + rest;
        self.is_slow = rest > FULL_EACH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: i64 = 1;
    const ENDPOINT: (i64, i64) = (APP, 7);
    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    /// A search that began this many seconds ago.
    fn begun(seconds: u64) -> Search {
        let began = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        Search { began, ..Search::default() }
    }

    fn known(search: &Search, at: Duration, apps: &[i64]) -> Vec<Known> {
        search.known(at, apps, &Depths::new())
    }

    fn in_full(search: &Search, at: Duration, apps: &[i64]) -> Vec<i64> {
        let known = known(search, at, apps);
        known.iter().filter(|known| known.due_from.is_none()).map(|known| known.app).collect()
    }

    #[test]
    fn a_full_search_takes_place_each_second_and_the_others_add_a_wake_for_the_next_one() {
        let mut search = Search::default();
        let at = search.begin();
        search.note(at, &[], vec![(ENDPOINT, NOW, NOW)]);

        let soon = at + FULL_EACH / 2;
        let partial = known(&search, soon, &[APP]);
        assert_eq!(partial[0].due_from, Some(NOW - NEAREST));
        let added = search.overdue(soon, &partial);
        let [(APP, wait)] = added[..] else { panic!("{added:?}") };
        search.note_overdue(soon, &added);
        search.note(soon, &partial, vec![(ENDPOINT, NOW, NOW)]);

        let later = soon + FULL_EACH / 4;
        assert!(search.overdue(later, &known(&search, later, &[APP])).is_empty(), "the wake is on its way");
        assert_eq!(in_full(&search, soon + wait, &[APP]), [APP]);
    }

    #[test]
    fn full_searches_use_at_most_a_twentieth_of_the_time() {
        let mut search = begun(10);
        search.note(Duration::ZERO, &[], vec![(ENDPOINT, NOW, NOW)]);
        let partial = known(&search, Duration::from_secs(200), &[APP]);
        assert!(partial[0].due_from.is_some());
        assert_eq!(in_full(&search, Duration::from_secs(220), &[APP]), [APP]);
        assert!(search.overdue(Duration::from_secs(200), &partial)[0].1 <= Duration::from_secs(20));
        search.note_failed(Duration::ZERO);
        assert!(in_full(&search, Duration::from_secs(205), &[APP]).is_empty());
    }

    #[test]
    fn a_slow_full_search_reads_the_app_that_has_waited_longest() {
        let mut search = begun(1);
        for app in [3, 2] {
            search.note(Duration::ZERO, &[], vec![((app, 1), NOW, NOW), ((app, 2), NOW, NOW)]);
        }
        let at = Duration::from_secs(60);
        assert_eq!(in_full(&search, at, &[2, 3]), [3, 3]);
        assert_eq!(in_full(&search, at, &[2]), [2, 2]);
        let overdue = search.overdue(at, &known(&search, at, &[2, 3]));
        assert_eq!(overdue, [(2, FULL_EACH)]);
    }

    #[test]
    fn returned_messages_move_the_position_of_their_endpoint_back() {
        let mut search = Search::default();
        search.note(Duration::ZERO, &[], vec![(ENDPOINT, NOW, NOW)]);
        search.note_returned((AppId(APP), 8), Timestamp::from_millis(-5_000));
        search.note_returned((AppId(APP), ENDPOINT.1), Timestamp::from_millis(9_000));
        assert_eq!(known(&search, Duration::ZERO, &[APP])[0].due_from, Some(NOW - NEAREST));
        search.note_returned((AppId(APP), ENDPOINT.1), Timestamp::from_millis(-9_000));
        let [only] = &known(&search, Duration::ZERO, &[APP])[..] else { panic!("one endpoint") };
        assert_eq!(only.due_from, Some(NOW - Duration::from_secs(9) - NEAREST));
    }
}
