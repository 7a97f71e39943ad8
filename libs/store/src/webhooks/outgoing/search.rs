//! Positions from which a process reads the queue of webhooks. While a transaction stays open, PostgreSQL keeps the index entries of all
//! messages that were sent since, so a full search reads more and more of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::AppId;
use uuid::Uuid;

use super::{Depths, DueMessage, EndpointRead, Woken};
use crate::database::instant::instant;

/// Overlap: a search from a position starts this much earlier. Longer than most transactions that add messages.
const NEAREST: Duration = Duration::from_millis(250);
/// A recent search reads messages that became due within this time. Longer than transactions last, unless a server stalls.
const RECENT: Duration = Duration::from_secs(10);
/// Time between two recent searches of an endpoint, and between two full ones, unless they take long.
const EACH: Duration = Duration::from_secs(1);
/// Time until the next recent search of an endpoint that was asked for and had no room for calls.
const AGAIN: Duration = Duration::from_millis(200);
/// Recent searches use at most this fraction of the time.
const RECENT_SHARE: u32 = 20;
/// Full searches use at most this fraction of the time. They are few, so that they do not show in the 99th percentile of other statements.
const FULL_SHARE: u32 = 200;
/// Longest time between two full searches that a slow one causes.
const LONGEST: Duration = Duration::from_secs(120);
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
    has_more: bool,
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
            has_more: false,
        }
    }
}

impl Search {
    /// Notes that all messages of a call slot are settled. Those that it returned may be due before the position by now.
    pub fn note_ended(&mut self, (app, endpoint): (AppId, i64), token: Uuid) {
        let key = (app.0, endpoint);
        let Some(slots) = self.slots.get_mut(&key) else { return };
        if let (Some(due_at), Some(position)) = (slots.remove(&token), self.endpoints.get_mut(&key)) {
            position.due_from = due_at.min(position.due_from);
        }
        if slots.is_empty() {
            self.slots.remove(&key);
        }
    }

    /// Notes that the messages of some call slots are lost. They become due again when their claims end.
    pub fn forget_slots(&mut self) {
        for (key, slots) in std::mem::take(&mut self.slots) {
            if let Some(position) = self.endpoints.get_mut(&key) {
                position.due_from = slots.into_values().fold(position.due_from, DateTime::min);
            }
        }
    }

    /// Notes messages that were claimed for a call slot. It may return them, and they keep the times at which they were due.
    pub(super) fn note_slot(&mut self, due: &DueMessage) {
        let slots = self.slots.entry((due.app.0, due.endpoint)).or_default();
        let due_at = instant(due.due_at);
        slots.entry(due.token).and_modify(|earliest| *earliest = due_at.min(*earliest)).or_insert(due_at);
    }

    /// Returns true if the last search left wakes that were due.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
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
        woken: &Woken,
    ) {
        (self.held, self.has_more) = (woken.held.clone(), woken.has_more);
        let took = ended.saturating_sub(at);
        let Wakes { recent_at, full_at, .. } =
            self.wakes.unwrap_or(Wakes { due_from, recent_at: at, full_at: at });
        let recent_at = if at < recent_at { recent_at } else { ended + EACH.max(took * RECENT_SHARE) };
        let full_at = if at < full_at { full_at } else { ended + EACH.max(took * FULL_SHARE).min(LONGEST) };
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
        let extents = self.extents(at, apps);
        let deep = depths.keys().map(|(app, endpoint)| (app.0, *endpoint));
        let endpoints = self.endpoints.keys().copied().chain(deep);
        let asked: BTreeSet<_> = endpoints.filter(|(app, _)| is_asked(app)).collect();
        asked
            .into_iter()
            .map(|(app, endpoint)| {
                let depth = depths.get(&(AppId(app), endpoint)).copied().unwrap_or(1);
                let nothing =
                    Known { app, endpoint, depth, due_from: None, claimed_from: None, extent: Extent::Full };
                let Some(position) = self.endpoints.get(&(app, endpoint)) else { return nothing };
                let extent = extents.get(&app).copied().unwrap_or(Extent::Full);
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

    /// Returns the extent of each app: the largest that is due for one of its endpoints. With an extent for each endpoint, the wakes of an
    /// idle app for its endpoints would never come together, and never end.
    fn extents(&self, at: Duration, apps: &[i64]) -> HashMap<i64, Extent> {
        let next = if self.is_slow { self.longest_waiting(at, apps) } else { None };
        let mut extents = HashMap::new();
        for ((app, _), position) in
            self.endpoints.iter().filter(|((app, _), _)| apps.binary_search(app).is_ok())
        {
            let may_be_full = self.full_from <= at && (!self.is_slow || next == Some(*app));
            let extent = if may_be_full && position.full_at <= at {
                Extent::Full
            } else if position.recent_at <= at {
                Extent::Recent
            } else {
                Extent::FromPosition
            };
            let of_app = extents.entry(*app).or_insert(extent);
            *of_app = extent.max(*of_app);
        }
        extents
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

    /// Notes the end of a search from `at` to `ended` with the known endpoints. It read those in `read`: endpoints without room for calls are
    /// left out.
    pub(super) fn note(
        &mut self,
        (at, ended): (Duration, Duration),
        known: &[Known],
        read: Vec<EndpointRead>,
    ) {
        let took = ended.saturating_sub(at);
        let extents: HashMap<_, _> =
            known.iter().map(|known| ((known.app, known.endpoint), known.extent)).collect();
        for (endpoint, extent) in &extents {
            let Some(position) = self.endpoints.get_mut(endpoint) else { continue };
            if *extent >= Extent::Recent {
                position.recent_at = ended + AGAIN;
            }
            if *extent == Extent::Full {
                position.full_at = ended + EACH;
            }
        }
        let mut was_full = false;
        for (endpoint, due_from, claimed_from) in read {
            if self.endpoints.len() >= MAX_ENDPOINTS && !self.endpoints.contains_key(&endpoint) {
                self.endpoints.clear();
            }
            let extent = extents.get(&endpoint).copied().unwrap_or(Extent::Full);
            let new = Position { due_from, claimed_from, recent_at: at, full_at: at };
            let position = self.endpoints.entry(endpoint).or_insert(new);
            (position.due_from, position.claimed_from) = (due_from, claimed_from);
            if extent >= Extent::Recent {
                position.recent_at = ended + EACH.max(took * RECENT_SHARE);
            }
            if extent == Extent::Full {
                position.full_at = ended + EACH;
                was_full = true;
            }
        }
        if was_full {
            self.note_full(took, ended);
        }
    }

    /// Notes that a search failed, perhaps because it took too long.
    pub(super) fn note_failed(&mut self, at: Duration, known: &[Known]) {
        if known.iter().any(|known| known.extent == Extent::Full) {
            let ended = self.began.elapsed();
            self.note_full(ended.saturating_sub(at), ended);
        }
    }

    fn note_full(&mut self, took: Duration, ended: Duration) {
        self.full_from = ended + (took * FULL_SHARE).min(LONGEST);
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
mod tests;
