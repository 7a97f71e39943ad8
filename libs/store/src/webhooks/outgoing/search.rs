//! Positions from which a process reads the queue of webhooks. While a transaction stays open, PostgreSQL keeps the index entries of all
//! messages that were sent since, so a full search reads more and more of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::AppId;
use uuid::Uuid;

use super::{Depths, DueMessage, EndpointRead};
use crate::database::instant::instant;

/// Overlap: a search from a position starts this much earlier. Longer than most transactions that add messages.
const NEAREST: Duration = Duration::from_millis(250);
/// A recent search reads messages that became due within this time. Longer than transactions last, unless a server stalls.
const RECENT: Duration = Duration::from_secs(10);
/// Time between two recent searches of an endpoint, and between two full ones, unless they take long.
const EACH: Duration = Duration::from_secs(1);
/// Recent searches use at most this fraction of the time.
const RECENT_SHARE: u32 = 20;
/// Full searches use at most this fraction of the time. They are few, so that they do not show in the 99th percentile of other statements.
const FULL_SHARE: u32 = 200;
/// Full searches that take longer read the endpoints of one app each, so that the others do not wait for all of them.
const SLOW: Duration = Duration::from_millis(50);
/// Time before and after a wake in which its app waits for its full search.
const CALLED: Duration = Duration::from_secs(1);
/// Endpoints whose position is remembered.
const MAX_ENDPOINTS: usize = 10_000;

/// Positions of a process's earlier searches. A new search knows none, and reads everything.
///
/// A message may be due before the position of its endpoint, because its transaction was committed late, or because another process returned
/// it. A recent search finds most of these messages, and a full search all. A search that is less adds a wake for the next recent or full one
/// ([`Search::overdue`]), so such a message is found even in an idle app.
#[derive(Debug)]
pub struct Search {
    began: Instant,
    wakes: Option<Wakes>,
    endpoints: HashMap<(i64, i64), Position>,
    /// Times of the wakes that were added for recent and for full searches, by app.
    overdue: HashMap<(i64, Extent), Duration>,
    /// Time before which no endpoint with a known position is searched in full.
    full_from: Duration,
    is_slow: bool,
    /// Time at which the earliest message of each running call slot was due, by endpoint and token.
    slots: HashMap<(i64, i64), HashMap<Uuid, DateTime<Utc>>>,
    /// Apps whose wakes another process held at the last search. The next search leaves them out.
    held: Vec<i64>,
}

/// Part of an endpoint's queue that a search reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Extent {
    FromPosition,
    Recent,
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Wakes {
    due_from: DateTime<Utc>,
    /// Times of the next recent and the next full search.
    recent_at: Duration,
    full_at: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Earliest due time that the search found.
    due_from: DateTime<Utc>,
    /// No running call has a claim that ends before.
    claimed_from: DateTime<Utc>,
    /// Earliest times of the next recent and the next full search.
    recent_at: Duration,
    full_at: Duration,
}

/// One element for each endpoint of which something is known. A missing time means that nothing is known, or that everything is to be read.
pub(super) struct Known {
    pub(super) app: i64,
    pub(super) endpoint: i64,
    pub(super) depth: u32,
    pub(super) due_from: Option<DateTime<Utc>>,
    pub(super) claimed_from: Option<DateTime<Utc>>,
    extent: Extent,
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
            slots: HashMap::new(),
            held: Vec::new(),
        }
    }
}

impl Search {
    /// Notes that all messages of a call slot are settled.
    pub fn note_ended(&mut self, (app, endpoint): (AppId, i64), token: Uuid) {
        if let Some(slots) = self.slots.get_mut(&(app.0, endpoint)) {
            slots.remove(&token);
            if slots.is_empty() {
                self.slots.remove(&(app.0, endpoint));
            }
        }
    }

    /// Notes that the messages of call slots are lost. They become due again when their claims end.
    pub fn forget_slots(&mut self) {
        self.slots.clear();
    }

    /// Notes messages that were claimed for a call slot. It may return them, and they keep the times at which they were due.
    pub(super) fn note_slot(&mut self, due: &DueMessage) {
        let slots = self.slots.entry((due.app.0, due.endpoint)).or_default();
        let due_at = instant(due.due_at);
        slots.entry(due.token).and_modify(|earliest| *earliest = due_at.min(*earliest)).or_insert(due_at);
    }

    /// Returns the time of a search that begins. All later calls for this search take it.
    pub(super) fn begin(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the due time from which a search reads wakes. None if it is full. `now` is the database's time.
    pub(super) fn wakes_from(&self, (at, now): (Duration, DateTime<Utc>)) -> Option<DateTime<Utc>> {
        let wakes = self.wakes.filter(|wakes| at < wakes.full_at)?;
        let from = wakes.due_from - NEAREST;
        Some(if at < wakes.recent_at { from } else { from.min(now - RECENT) })
    }

    /// Returns the apps that a search of wakes from a position leaves out.
    pub(super) fn take_held(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.held)
    }

    /// Notes the end of a search of wakes that began at `at` and took until `ended`.
    pub(super) fn note_wakes(
        &mut self,
        (at, ended): (Duration, Duration),
        due_from: DateTime<Utc>,
        held: Vec<i64>,
    ) {
        self.held = held;
        let took = ended.saturating_sub(at);
        let Wakes { recent_at, full_at, .. } =
            self.wakes.unwrap_or(Wakes { due_from, recent_at: at, full_at: at });
        let recent_at = if at < recent_at { recent_at } else { ended + EACH.max(took * RECENT_SHARE) };
        let full_at = if at < full_at { full_at } else { ended + EACH.max(took * FULL_SHARE) };
        self.wakes = Some(Wakes { due_from, recent_at, full_at });
    }

    /// `now` is the database's time.
    pub(super) fn known(
        &self,
        (at, now): (Duration, DateTime<Utc>),
        apps: &[i64],
        depths: &Depths,
    ) -> Vec<Known> {
        let is_asked = |app: &i64| apps.binary_search(app).is_ok();
        let next = if self.is_slow { self.longest_waiting(at, apps) } else { None };
        let deep = depths.keys().map(|(app, endpoint)| (app.0, *endpoint));
        let endpoints: BTreeSet<_> = self.endpoints.keys().copied().chain(deep).collect();
        let asked = endpoints.into_iter().filter(|(app, _)| is_asked(app));
        asked
            .map(|(app, endpoint)| {
                let depth = depths.get(&(AppId(app), endpoint)).copied().unwrap_or(1);
                let nothing =
                    Known { app, endpoint, depth, due_from: None, claimed_from: None, extent: Extent::Full };
                let Some(position) = self.endpoints.get(&(app, endpoint)) else { return nothing };
                let extent = self.extent(at, app, position, next);
                let slots = self.slots.get(&(app, endpoint)).into_iter().flat_map(HashMap::values);
                let due_from = slots.fold(position.due_from, |from, slot| from.min(*slot)) - NEAREST;
                match extent {
                    Extent::Full => nothing,
                    Extent::Recent => Known { due_from: Some(due_from.min(now - RECENT)), extent, ..nothing },
                    Extent::FromPosition => {
                        let claimed_from = Some(position.claimed_from);
                        Known { due_from: Some(due_from), claimed_from, extent, ..nothing }
                    }
                }
            })
            .collect()
    }

    fn extent(&self, at: Duration, app: i64, position: &Position, next: Option<i64>) -> Extent {
        let is_full = self.full_from.max(position.full_at) <= at && (!self.is_slow || next == Some(app));
        match is_full {
            true => Extent::Full,
            false if position.recent_at <= at => Extent::Recent,
            false => Extent::FromPosition,
        }
    }

    /// Returns the app whose full search has been due longest: one of these apps, or one whose wake for it is due now. A busy app, which is
    /// asked all the time, would otherwise always come first.
    fn longest_waiting(&self, at: Duration, apps: &[i64]) -> Option<i64> {
        let is_called = |app: &i64| {
            let wake = self.overdue.get(&(*app, Extent::Full));
            wake.is_some_and(|wake| *wake <= at + CALLED && at < *wake + CALLED)
        };
        let waiting = self
            .endpoints
            .iter()
            .filter(|((app, _), _)| apps.binary_search(app).is_ok() || is_called(app))
            .map(|((app, _), position)| (position.full_at, *app));
        waiting.min().map(|(_, app)| app)
    }

    /// Returns the apps that this search does not read in full and that have no wake for their next recent or full search yet, with the time
    /// until then.
    pub(super) fn overdue(&self, at: Duration, known: &[Known]) -> Vec<Overdue> {
        let mut next = HashMap::<(i64, Extent), Duration>::new();
        for Known { app, endpoint, extent, .. } in known {
            let Some(position) = self.endpoints.get(&(*app, *endpoint)) else { continue };
            let (wanted, wanted_at) = match extent {
                Extent::FromPosition => (Extent::Recent, position.recent_at),
                Extent::Recent => (Extent::Full, self.full_from.max(position.full_at)),
                Extent::Full => continue,
            };
            let latest = next.entry((*app, wanted)).or_default();
            *latest = if wanted_at > at { wanted_at } else { at + EACH }.max(*latest);
        }
        let is_on_its_way = |key: &(i64, Extent)| self.overdue.get(key).is_some_and(|wake| *wake > at);
        next.into_iter()
            .filter(|(key, _)| !is_on_its_way(key))
            .map(|((app, extent), wanted_at)| Overdue { app, extent, after: wanted_at.saturating_sub(at) })
            .collect()
    }

    pub(super) fn note_overdue(&mut self, at: Duration, added: &[Overdue]) {
        self.overdue.retain(|_, wake| *wake + CALLED > at);
        self.overdue.extend(added.iter().map(|added| ((added.app, added.extent), at + added.after)));
    }

    /// Notes the end of a search that began at `at` with the known endpoints and read those in `read`.
    pub(super) fn note(&mut self, at: Duration, known: &[Known], read: Vec<EndpointRead>) {
        let now = self.began.elapsed();
        let took = now.saturating_sub(at);
        let extents: HashMap<_, _> =
            known.iter().map(|known| ((known.app, known.endpoint), known.extent)).collect();
        let mut was_full = read.iter().any(|(endpoint, ..)| !extents.contains_key(endpoint));
        // An endpoint without room for calls is not in `read`, nor is one that was removed.
        for (endpoint, extent) in &extents {
            let Some(position) = self.endpoints.get_mut(endpoint) else { continue };
            if *extent >= Extent::Recent {
                position.recent_at = now + EACH.max(took * RECENT_SHARE);
            }
            if *extent == Extent::Full {
                position.full_at = now + EACH;
                was_full = true;
            }
        }
        if was_full {
            self.note_full(at, now);
        }
        for (endpoint, due_from, claimed_from) in read {
            if self.endpoints.len() >= MAX_ENDPOINTS && !self.endpoints.contains_key(&endpoint) {
                self.endpoints.clear();
            }
            let times = self.endpoints.get(&endpoint).map(|known| (known.recent_at, known.full_at));
            let (recent_at, full_at) = times.unwrap_or((now + EACH, now + EACH));
            self.endpoints.insert(endpoint, Position { due_from, claimed_from, recent_at, full_at });
        }
    }

    /// Notes that a search failed, perhaps because it took too long.
    pub(super) fn note_failed(&mut self, at: Duration) {
        self.note_full(at, self.began.elapsed());
    }

    fn note_full(&mut self, at: Duration, now: Duration) {
        let took = now.saturating_sub(at);
        self.full_from = now + took * FULL_SHARE;
        self.is_slow = took > SLOW;
    }
}

/// A wake for the next recent or full search of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    pub(super) app: i64,
    extent: Extent,
    pub(super) after: Duration,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::Timestamp;

    use super::*;
    use crate::webhooks::Target;

    const APP: i64 = 1;
    const ENDPOINT: (i64, i64) = (APP, 7);
    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    /// A search that began this many seconds ago.
    fn begun(seconds: u64) -> Search {
        let began = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        Search { began, ..Search::default() }
    }

    fn known(search: &Search, at: Duration, apps: &[i64]) -> Vec<Known> {
        search.known((at, NOW), apps, &Depths::new())
    }

    fn extents(search: &Search, at: Duration, apps: &[i64]) -> Vec<Extent> {
        known(search, at, apps).iter().map(|known| known.extent).collect()
    }

    fn in_full(search: &Search, at: Duration, apps: &[i64]) -> Vec<i64> {
        let known = known(search, at, apps);
        known.iter().filter(|known| known.due_from.is_none()).map(|known| known.app).collect()
    }

    #[test]
    fn a_full_search_takes_place_each_second_and_the_others_add_a_wake_for_the_next_recent_one() {
        let mut search = Search::default();
        let at = search.begin();
        search.note(at, &[], vec![(ENDPOINT, NOW, NOW)]);

        let soon = at + EACH / 2;
        let partial = known(&search, soon, &[APP]);
        assert_eq!(partial[0].due_from, Some(NOW - NEAREST));
        let added = search.overdue(soon, &partial);
        let [Overdue { app: APP, extent: Extent::Recent, after }] = added[..] else { panic!("{added:?}") };
        search.note_overdue(soon, &added);
        search.note(soon, &partial, vec![(ENDPOINT, NOW, NOW)]);

        let later = soon + EACH / 4;
        assert!(search.overdue(later, &known(&search, later, &[APP])).is_empty(), "the wake is on its way");
        assert_eq!(in_full(&search, soon + after, &[APP]), [APP]);
    }

    #[test]
    fn a_recent_search_takes_the_place_of_a_full_one_that_would_take_too_much_time() {
        let mut search = begun(10);
        search.note(Duration::ZERO, &[], vec![(ENDPOINT, NOW, NOW)]);
        let soon = Duration::from_secs(12);
        let recent = known(&search, soon, &[APP]);
        assert_eq!((recent[0].due_from, recent[0].claimed_from), (Some(NOW - RECENT), None));
        let overdue = search.overdue(soon, &recent);
        let [Overdue { extent: Extent::Full, after, .. }] = overdue[..] else { panic!("{overdue:?}") };
        assert!(after > Duration::from_secs(1_900), "{after:?}");
        search.note_overdue(soon, &overdue);
        search.note(soon, &recent, vec![(ENDPOINT, NOW, NOW)]);
        assert_eq!(extents(&search, Duration::from_secs(10), &[APP]), [Extent::FromPosition]);
        assert_eq!(extents(&search, Duration::from_secs(2_000), &[APP]), [Extent::Recent]);
        assert_eq!(extents(&search, Duration::from_secs(2_011), &[APP]), [Extent::Full]);
        search.note_failed(Duration::ZERO);
        assert_eq!(extents(&search, Duration::from_secs(2_005), &[APP]), [Extent::Recent]);
    }

    #[test]
    fn wakes_are_read_like_messages() {
        let mut search = Search::default();
        let seconds = Duration::from_secs;
        let from = |search: &Search, at| search.wakes_from((seconds(at), NOW));
        assert_eq!(from(&search, 0), None);
        search.note_wakes((seconds(0), seconds(1)), NOW, Vec::new());
        assert_eq!(from(&search, 2), Some(NOW - NEAREST));
        assert_eq!(from(&search, 21), Some(NOW - RECENT));
        search.note_wakes((seconds(21), seconds(21)), NOW, Vec::new());
        assert_eq!([21, 200].map(|at| from(&search, at)), [Some(NOW - NEAREST), Some(NOW - RECENT)]);
        assert_eq!(from(&search, 201), None);
    }

    #[test]
    fn a_slow_full_search_reads_the_app_that_has_waited_longest() {
        let mut search = begun(1);
        for app in [3, 2] {
            search.note(Duration::ZERO, &[], vec![((app, 1), NOW, NOW), ((app, 2), NOW, NOW)]);
        }
        let at = Duration::from_secs(600);
        assert_eq!(in_full(&search, at, &[2, 3]), [3, 3]);
        assert_eq!(in_full(&search, at, &[2]), [2, 2]);
        let overdue = search.overdue(at, &known(&search, at, &[2, 3]));
        assert_eq!(overdue, [Overdue { app: 2, extent: Extent::Full, after: EACH }]);
    }

    #[test]
    fn a_busy_app_lets_one_go_first_that_has_a_wake_for_its_full_search() {
        let mut search = begun(1);
        search.note(Duration::ZERO, &[], vec![((2, 1), NOW, NOW)]);
        search.note(Duration::ZERO, &[], vec![((3, 1), NOW, NOW)]);
        let at = Duration::from_secs(600);
        search.note_overdue(at, &[Overdue { app: 2, extent: Extent::Full, after: CALLED / 2 }]);
        assert!(in_full(&search, at, &[3]).is_empty(), "app 2 has waited longer");
        assert_eq!(in_full(&search, at + CALLED / 2, &[2, 3]), [2]);
        assert_eq!(in_full(&search, at + CALLED * 2, &[3]), [3], "another process has answered the wake");
    }

    #[test]
    fn an_endpoint_without_room_does_not_stay_the_one_that_has_waited_longest() {
        let mut search = begun(1);
        search.note(Duration::ZERO, &[], vec![((3, 1), NOW, NOW), ((3, 2), NOW, NOW)]);
        search.note(Duration::ZERO, &[], vec![((4, 1), NOW, NOW)]);
        let at = Duration::from_secs(600);
        let of_three = known(&search, at, &[3, 4]);
        assert!(of_three.iter().take(2).all(|known| known.due_from.is_none()));
        search.note(at, &of_three, vec![((3, 1), NOW, NOW)]);
        (search.full_from, search.is_slow) = (Duration::ZERO, true);
        assert_eq!(in_full(&search, at * 2, &[3, 4]), [4]);
    }

    #[test]
    fn the_position_does_not_pass_messages_that_a_call_slot_may_return() {
        let mut search = Search::default();
        let later = NOW + Duration::from_secs(60);
        let due = |token: u128, seconds: i64| DueMessage {
            app: AppId(APP),
            endpoint: ENDPOINT.1,
            id: Uuid::nil(),
            target: Arc::new(Target { url: String::new(), sealed: Vec::new() }),
            body: String::new(),
            attempt: 1,
            due_at: Timestamp::from_millis(seconds * 1_000),
            token: Uuid::from_u128(token),
        };
        for (token, seconds) in [(1, 9), (1, 7), (1, 8), (2, 5)] {
            search.note_slot(&due(token, seconds));
        }
        search.note(Duration::ZERO, &[], vec![(ENDPOINT, later, later)]);
        let from = |search: &Search| known(search, Duration::ZERO, &[APP])[0].due_from.unwrap() + NEAREST;
        assert_eq!(from(&search), NOW + Duration::from_secs(5));
        search.note_ended((AppId(APP), ENDPOINT.1), Uuid::from_u128(2));
        assert_eq!(from(&search), NOW + Duration::from_secs(7));
        search.note_ended((AppId(APP), ENDPOINT.1), Uuid::from_u128(1));
        assert_eq!(from(&search), later);
        assert!(search.slots.is_empty());
    }
}
