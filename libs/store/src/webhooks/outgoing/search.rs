//! Positions from which a process reads the queue of webhooks. While a transaction stays open, PostgreSQL keeps the index entries of all
//! messages that were sent since, so a search from the beginning reads more and more of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use domain::AppId;
use uuid::Uuid;

use super::behind::{Behind, LATE, Lookout, Place, Reach};
use super::{Depths, DueMessage, EndpointRead, Woken};
use crate::database::instant::instant;

/// Overlap: a search from a position starts this much earlier. Longer than most transactions that add messages.
const NEAREST: Duration = Duration::from_millis(250);
/// Endpoints whose position is remembered.
const MAX_ENDPOINTS: usize = 10_000;
/// Apps that one search asks for because a look has found messages: it locks them all.
const MAX_FOUND: usize = 64;

/// Positions of a process's earlier searches. A new search knows none, and reads everything.
///
/// A message may be due before the position of its endpoint, because its transaction was committed late, or because another process returned
/// it. Looks behind the positions ([`Search::look`]) find these messages.
#[derive(Debug)]
pub struct Search {
    began: Instant,
    wakes: Wakes,
    endpoints: HashMap<(i64, i64), Position>,
    lookouts: [Lookout; 2],
    /// Time at which the earliest message of each running call slot was due, by endpoint and token.
    slots: HashMap<(i64, i64), HashMap<Uuid, DateTime<Utc>>>,
    /// Apps with messages behind the positions. Searches ask for them until they get them.
    found: BTreeSet<i64>,
    has_more: bool,
}

#[derive(Debug, Default)]
struct Wakes {
    /// None before the first search.
    due_from: Option<DateTime<Utc>>,
    /// Earliest times of the next search of recent wakes, and of all.
    recent_at: Duration,
    full_at: Duration,
    /// Database's time of the last search of recent wakes.
    recent_from: Option<DateTime<Utc>>,
    /// Apps whose wakes another process held at the last search, or at the last ones if these may have hidden others. The next search leaves
    /// them out.
    held: BTreeSet<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Earliest due time that the search found, a look has found, or a call slot may have returned.
    due_from: DateTime<Utc>,
    /// Earliest due time that the search found.
    front: DateTime<Utc>,
    /// No running call has a claim that ends before.
    claimed_from: DateTime<Utc>,
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
        Search {
            began: Instant::now(),
            wakes: Wakes::default(),
            endpoints: HashMap::new(),
            lookouts: [Reach::Recent, Reach::Full].map(Lookout::new),
            slots: HashMap::new(),
            found: BTreeSet::new(),
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
    pub(super) fn begin(&mut self) -> Duration {
        self.has_more = false;
        self.now()
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the due time from which a search reads wakes, and the apps that it leaves out. No time if it reads all. `now` is the
    /// database's time.
    pub(super) fn wakes_from(
        &mut self,
        (at, now): (Duration, DateTime<Utc>),
    ) -> (Option<DateTime<Utc>>, Vec<i64>) {
        let wakes = &mut self.wakes;
        let Some(due_from) = wakes.due_from.filter(|_| at < wakes.full_at) else {
            // If it fails, the next searches read less.
            wakes.full_at = at + Reach::Full.longest();
            wakes.held.clear();
            return (None, Vec::new());
        };
        let mut from = due_from - NEAREST;
        if wakes.recent_at <= at {
            // A transaction that was under way at the last search has been committed since.
            from = from.min(wakes.recent_from.unwrap_or(now).min(now) - LATE);
        }
        (Some(from), wakes.held.iter().copied().collect())
    }

    /// Notes a search of wakes from `from`, which began at `at` and took until `ended`, after its commit.
    pub(super) fn note_wakes(
        &mut self,
        (at, ended): (Duration, Duration),
        (from, now): (Option<DateTime<Utc>>, DateTime<Utc>),
        woken: &Woken,
    ) {
        self.has_more = woken.has_more;
        self.found.retain(|app| woken.apps.binary_search(app).is_err());
        let took = ended.saturating_sub(at);
        let wakes = &mut self.wakes;
        if from.is_none() {
            wakes.full_at = Reach::Full.next(took, ended);
        }
        if wakes.recent_at <= at {
            wakes.recent_at = Reach::Recent.next(took, ended);
            wakes.recent_from = Some(now);
        }
        wakes.due_from = Some(woken.from.unwrap_or(now));
        // While as many rows are found as are looked for, those of other apps may be behind them.
        if woken.held.is_empty() || !woken.has_more {
            wakes.held.clear();
        }
        wakes.held.extend(&woken.held);
    }

    pub(super) fn known(&self, apps: &[i64], depths: &Depths) -> Vec<Known> {
        let deep = depths.keys().map(|(app, endpoint)| (app.0, *endpoint));
        let endpoints = self.endpoints.keys().copied().chain(deep);
        let asked: BTreeSet<_> = endpoints.filter(|(app, _)| apps.binary_search(app).is_ok()).collect();
        asked
            .into_iter()
            .map(|(app, endpoint)| Known {
                app,
                endpoint,
                depth: depths.get(&(AppId(app), endpoint)).copied().unwrap_or(1),
                due_from: self.due_from((app, endpoint)).map(|from| from - NEAREST),
                claimed_from: self.endpoints.get(&(app, endpoint)).map(|position| position.claimed_from),
            })
            .collect()
    }

    /// Returns the time before which no message of the endpoint is known to be due, also if its call slot returns it.
    fn due_from(&self, key: (i64, i64)) -> Option<DateTime<Utc>> {
        let position = self.endpoints.get(&key)?;
        let slots = self.slots.get(&key).into_iter().flat_map(HashMap::values);
        Some(slots.fold(position.due_from, |from, slot| from.min(*slot)))
    }

    /// Notes that a search asked for endpoints, and removes the wakes of messages that it may not have found. Called before its commit, of
    /// which the answer may be lost.
    pub(super) fn note_asked(&mut self, known: &[Known], read: &[EndpointRead]) {
        let known = known.iter().map(|known| (known.app, known.endpoint));
        for endpoint in known.chain(read.iter().map(|(endpoint, ..)| *endpoint)) {
            for lookout in &mut self.lookouts {
                lookout.add(endpoint);
            }
        }
    }

    /// Notes the positions of the endpoints that a search has read. Endpoints without room for calls are left out.
    pub(super) fn note(&mut self, read: Vec<EndpointRead>) {
        for (endpoint, due_from, claimed_from) in read {
            if self.endpoints.len() >= MAX_ENDPOINTS && !self.endpoints.contains_key(&endpoint) {
                self.endpoints.clear();
            }
            self.endpoints.insert(endpoint, Position { due_from, front: due_from, claimed_from });
        }
    }

    /// Notes that a search failed, perhaps because it read too much from positions that had moved back. The next full look finds these messages
    /// again.
    pub(super) fn note_failed(&mut self, apps: &[i64], known: &[Known]) {
        self.note_asked(known, &[]);
        self.found.retain(|app| apps.binary_search(app).is_err());
        for Known { app, endpoint, .. } in known {
            if let Some(position) = self.endpoints.get_mut(&(*app, *endpoint)) {
                position.due_from = position.front;
            }
        }
    }

    /// Returns a look behind the positions that is due. The caller must give it back to [`note_look`](Self::note_look).
    pub fn look(&mut self) -> Option<Behind> {
        self.look_at(self.now())
    }

    fn look_at(&mut self, at: Duration) -> Option<Behind> {
        let lookout = self.lookouts.iter_mut().find(|lookout| lookout.is_due(at))?;
        let (reach, endpoints) = (lookout.reach, lookout.begin().collect::<Vec<_>>());
        let place = |endpoint| {
            let claimed_from = self.endpoints.get(&endpoint).map(|position| position.claimed_from);
            Place { endpoint, due_from: self.due_from(endpoint), claimed_from }
        };
        Some(Behind::new(reach, at, endpoints.into_iter().map(place)))
    }

    /// Notes the end of a look. The next search asks for the apps in which messages were found.
    pub fn note_look(&mut self, look: &Behind) {
        self.note_look_at(look, self.now());
    }

    fn note_look_at(&mut self, look: &Behind, ended: Duration) {
        for Place { endpoint, due_from, claimed_from } in &look.found {
            self.found.extend(due_from.map(|_| endpoint.0));
            let Some(position) = self.endpoints.get_mut(endpoint) else { continue };
            position.due_from = due_from.unwrap_or(position.due_from).min(position.due_from);
            position.claimed_from = claimed_from.unwrap_or(position.claimed_from).min(position.claimed_from);
        }
        if let Some(lookout) = self.lookouts.iter_mut().find(|lookout| lookout.reach == look.reach) {
            lookout.end(look, ended);
        }
    }

    /// Notes that looks under way are lost. The next ones repeat them.
    pub fn forget_looks(&mut self) {
        self.lookouts.iter_mut().for_each(Lookout::forget_look);
    }

    /// Returns apps for which the next search asks.
    pub(super) fn found(&self) -> Vec<i64> {
        self.found.iter().copied().take(MAX_FOUND).collect()
    }

    /// Returns the apps of which messages may be due behind the positions.
    #[must_use]
    pub fn unfinished(&self) -> Vec<AppId> {
        let apps: BTreeSet<_> =
            self.lookouts.iter().flat_map(Lookout::apps).chain(self.found.iter().copied()).collect();
        apps.into_iter().map(AppId).collect()
    }
}

#[cfg(test)]
mod tests;
