//! Figures of an app for people who ask if it is well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{AppId, Channel, DeliveryId, Status, Timestamp};
use moka::future::Cache;
use service_kit::clock;
use store::Store;
use store::control::provider::ProviderSummary;
use store::deliveries::recent::{LatestAnswer, ParkedMessage};

use crate::waiting::database;
use crate::{Caller, OperationError, Permission};

/// Time for which all viewers see the same figures.
pub const REFRESHED_EACH: Duration = Duration::from_secs(10);
/// Minutes that the figures cover.
pub const MINUTES: usize = 60;
/// Maximum number of rows that a figure counts.
pub const MOST_COUNTED: usize = 10_000;
/// Maximum number of failures that are listed.
const FAILURES: usize = 8;
const MOST_APPS: u64 = 1_000;
const MINUTE_MILLIS: u64 = 60_000;

/// A number that stops at [`MOST_COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub number: usize,
    /// True if there are more.
    pub more: bool,
}

impl Count {
    /// Counts rows that were read with a limit of one more than [`MOST_COUNTED`].
    fn of<T>(rows: &[T]) -> Count {
        Count { number: rows.len().min(MOST_COUNTED), more: rows.len() > MOST_COUNTED }
    }
}

/// Parked messages with the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedCause {
    /// None if the messages are sends that could not be planned.
    pub channel: Option<Channel>,
    pub cause: String,
    pub number: usize,
    pub oldest: Timestamp,
    pub newest: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Overview {
    pub at: Timestamp,
    /// Sends of the last hour.
    pub accepted: Count,
    /// Number of sends in each of the last 60 minutes, earliest first.
    pub per_minute: Vec<u32>,
    /// Deliveries of these sends.
    pub deliveries: Count,
    pub states: BTreeMap<Channel, BTreeMap<Status, usize>>,
    /// The latest deliveries that failed, with the providers' answers.
    pub failures: Vec<LatestAnswer>,
    pub parked: Count,
    /// Most frequent first.
    pub parked_causes: Vec<ParkedCause>,
    pub providers: Vec<ProviderSummary>,
}

impl Overview {
    /// Returns the number of deliveries with one of the statuses.
    #[must_use]
    pub fn with_status(&self, statuses: &[Status]) -> usize {
        let counts = self.states.values().flat_map(BTreeMap::iter);
        counts.filter(|(status, _)| statuses.contains(status)).map(|(_, number)| number).sum()
    }
}

/// The figures of all apps, each read at most once every ten seconds.
#[derive(Clone)]
pub struct Overviews {
    store: Store,
    read: Cache<AppId, Arc<Overview>>,
}

impl Overviews {
    #[must_use]
    pub fn new(store: Store) -> Overviews {
        let read = Cache::builder().max_capacity(MOST_APPS).time_to_live(REFRESHED_EACH).build();
        Overviews { store, read }
    }

    /// Returns the figures of an app. Concurrent callers wait for the same statements.
    pub async fn of_app(&self, caller: &Caller, app: AppId) -> Result<Arc<Overview>, OperationError> {
        caller.may(Permission::View, app)?;
        let read =
            self.read.try_get_with(app, async { Box::pin(read(&self.store, app)).await.map(Arc::new) });
        read.await.map_err(|error| OperationError::later("the figures cannot be read; try again", error))
    }
}

async fn read(store: &Store, app: AppId) -> Result<Overview, OperationError> {
    let at = clock::now();
    let since = at - REFRESHED_EACH * u32::try_from(MINUTES * 6).unwrap_or(u32::MAX);
    let most = i64::try_from(MOST_COUNTED + 1).unwrap_or(i64::MAX);
    let accepted = database(store.sends().recent_acceptances(app, since, most)).await?;
    let states = database(store.deliveries().recent_states(app, since, most)).await?;
    let parked = database(store.deliveries().parked_page(app, None, most)).await?;
    let providers = database(store.control().list_providers(app)).await?;
    let failed = [Status::Failed, Status::Parked, Status::Unknown, Status::Retrying];
    let failed = states.iter().filter(|state| failed.contains(&state.status));
    let failed: Vec<DeliveryId> = failed.map(|state| state.id).take(FAILURES).collect();
    let mut failures = database(store.deliveries().latest_answers(app, &failed)).await?;
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.at));
    let mut counts: BTreeMap<Channel, BTreeMap<Status, usize>> = BTreeMap::new();
    for state in states.iter().take(MOST_COUNTED) {
        *counts.entry(state.channel).or_default().entry(state.status).or_default() += 1;
    }
    Ok(Overview {
        at,
        accepted: Count::of(&accepted),
        per_minute: per_minute(&accepted, at),
        deliveries: Count::of(&states),
        states: counts,
        failures,
        parked: Count::of(&parked),
        parked_causes: causes(&parked),
        providers,
    })
}

fn per_minute(accepted: &[Timestamp], now: Timestamp) -> Vec<u32> {
    let mut minutes = vec![0; MINUTES];
    for &at in accepted.iter().take(MOST_COUNTED) {
        let age = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX) / MINUTE_MILLIS;
        let place = usize::try_from(age).ok().and_then(|age| (MINUTES - 1).checked_sub(age));
        if let Some(count) = place.and_then(|place| minutes.get_mut(place)) {
            *count += 1;
        }
    }
    minutes
}

/// Groups parked messages, which are given latest first, by channel and cause.
pub(crate) fn causes(parked: &[ParkedMessage]) -> Vec<ParkedCause> {
    let mut groups: BTreeMap<(Option<Channel>, &str), ParkedCause> = BTreeMap::new();
    for message in parked.iter().take(MOST_COUNTED) {
        let at = message.parked_at;
        let channel = message.channel();
        let group = groups.entry((channel, &message.cause)).or_insert_with(|| ParkedCause {
            channel,
            cause: message.cause.clone(),
            number: 0,
            oldest: at,
            newest: at,
        });
        group.number += 1;
        group.oldest = group.oldest.min(at);
    }
    let mut groups: Vec<ParkedCause> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.number));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    #[test]
    fn sends_are_counted_in_the_minute_of_their_acceptance() {
        let minutes = per_minute(&[at(0), at(-59), at(-60), at(-3599), at(-3600), at(5)], at(0));
        assert_eq!((minutes[59], minutes[58], minutes[0]), (3, 1, 1), "a later time counts as now");
        assert_eq!(minutes.iter().sum::<u32>(), 5, "a send of an hour ago is left out");
    }
}
