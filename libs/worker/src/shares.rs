//! Shares of a provider's concurrent calls. They prevent one user, or one host that targets name, from using all calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::UserNumber;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Minimum pause before a delivery is retried because the share of its user or host was used up.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum length of this pause. The pause grows with the number of deliveries that found the share used up.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// Calls to one provider in one lane that are in progress or wait for their host, counted by user and by host.
#[derive(Debug)]
pub(crate) struct Shares {
    of_user: usize,
    of_host: usize,
    of_unproven: usize,
    users: Mutex<HashMap<UserNumber, UserShare>>,
    hosts: Mutex<HashMap<Host, HostShare>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    /// A host that a recent answer proved to be alive.
    Proven(String),
    /// All other hosts together. They share one limit, because targets can name any number of hosts.
    Unproven,
}

#[derive(Debug, Default)]
struct UserShare {
    under_way: usize,
    /// Number of deliveries that were refused since the share was last available.
    turned_away: usize,
}

#[derive(Debug)]
struct HostShare {
    /// A permit for each call. Waiting deliveries get them in the order of their arrival.
    calls: Arc<Semaphore>,
    /// Number of deliveries that were refused since the share was last available.
    turned_away: usize,
}

/// A reserved call. Dropping it releases the call.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    user: UserNumber,
    host: Option<Host>,
    call: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// Derives the limits from `calls`: a quarter for each user, three quarters for each proven host, and half for all other
    /// hosts together ([`Host::Unproven`]).
    pub(crate) fn of(calls: usize) -> Shares {
        Shares {
            of_user: calls.div_ceil(4).max(1),
            of_host: (calls * 3).div_ceil(4).max(1),
            of_unproven: calls.div_ceil(2).max(1),
            users: Mutex::default(),
            hosts: Mutex::default(),
        }
    }

    /// Reserves a call for this user and for the host that the target names. The flag next to the host is true if a recent
    /// answer proved the host alive. If the share of the host is used up, waits for it until `patience`. After that, or if the
    /// share of the user is used up, returns the pause before the next try.
    pub(crate) async fn take(
        shares: &Arc<Shares>,
        user: UserNumber,
        host: Option<(&str, bool)>,
        patience: Instant,
    ) -> Result<Share, Duration> {
        let mut share = Shares::take_for_user(shares, user)?;
        if let Some((name, is_proven)) = host {
            let host = if is_proven { Host::Proven(name.to_owned()) } else { Host::Unproven };
            let calls = shares.calls_of(&host);
            share.host = Some(host.clone());
            let Ok(Ok(call)) = timeout_at(patience, calls.acquire_owned()).await else {
                return Err(shares.turn_away(&host));
            };
            share.call = Some(call);
            if let Some(of_host) = locked(&shares.hosts).get_mut(&host) {
                of_host.turned_away = 0;
            }
        }
        Ok(share)
    }

    fn take_for_user(shares: &Arc<Shares>, user: UserNumber) -> Result<Share, Duration> {
        let mut users = locked(&shares.users);
        let of_user = users.entry(user).or_default();
        if of_user.under_way >= shares.of_user {
            of_user.turned_away += 1;
            return Err(pause(of_user.turned_away, shares.of_user));
        }
        *of_user = UserShare { under_way: of_user.under_way + 1, turned_away: 0 };
        drop(users);
        Ok(Share { shares: Arc::clone(shares), user, host: None, call: None })
    }

    fn most(&self, host: &Host) -> usize {
        match host {
            Host::Proven(_) => self.of_host,
            Host::Unproven => self.of_unproven,
        }
    }

    fn calls_of(&self, host: &Host) -> Arc<Semaphore> {
        let mut hosts = locked(&self.hosts);
        if let Some(of_host) = hosts.get(host) {
            return Arc::clone(&of_host.calls);
        }
        let calls = Arc::new(Semaphore::new(self.most(host)));
        hosts.insert(host.clone(), HostShare { calls: Arc::clone(&calls), turned_away: 0 });
        calls
    }

    fn turn_away(&self, host: &Host) -> Duration {
        let mut hosts = locked(&self.hosts);
        let turned_away = hosts.get_mut(host).map_or(1, |of_host| {
            of_host.turned_away += 1;
            of_host.turned_away
        });
        pause(turned_away, self.most(host))
    }
}

/// The pause of a delivery that was refused as one of `turned_away`, if the share has `most` calls.
fn pause(turned_away: usize, most: usize) -> Duration {
    let rounds = u32::try_from(turned_away.div_ceil(most)).unwrap_or(u32::MAX);
    PAUSE.saturating_mul(rounds).min(LONGEST_PAUSE)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Share {
    fn drop(&mut self) {
        // This releases the permit and its reference to the semaphore.
        self.call = None;
        if let Some(host) = &self.host {
            let mut hosts = locked(&self.shares.hosts);
            if hosts.get(host).is_some_and(|of_host| Arc::strong_count(&of_host.calls) == 1) {
                hosts.remove(host);
            }
        }
        let mut users = locked(&self.shares.users);
        if let Some(of_user) = users.get_mut(&self.user) {
            of_user.under_way = of_user.under_way.saturating_sub(1);
            if of_user.under_way == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MALLORY: UserNumber = UserNumber(0);
    const BOB: UserNumber = UserNumber(1);

    async fn take(
        shares: &Arc<Shares>,
        user: UserNumber,
        host: Option<(&str, bool)>,
    ) -> Result<Share, Duration> {
        Shares::take(shares, user, host, Instant::now()).await
    }

    fn is_idle(shares: &Shares) -> bool {
        locked(&shares.users).is_empty() && locked(&shares.hosts).is_empty()
    }

    #[tokio::test]
    async fn calls_of_one_user_leave_room_for_others_and_release_their_share() {
        let shares = Arc::new(Shares::of(24));
        let mut held = Vec::new();
        for _ in 0..6 {
            held.push(take(&shares, MALLORY, None).await.unwrap());
        }
        assert_eq!(take(&shares, MALLORY, None).await.unwrap_err(), PAUSE);
        assert!(take(&shares, BOB, None).await.is_ok());
        drop(held);
        assert!(take(&shares, MALLORY, None).await.is_ok());
        assert!(is_idle(&shares), "finished calls leave no state");
    }

    #[tokio::test]
    async fn unproven_hosts_share_half_of_the_calls_and_leave_room_for_a_proven_one() {
        let shares = Arc::new(Shares::of(24));
        let names: Vec<String> = (0..24).map(|number| format!("https://nx{number}.example")).collect();
        let mut taken = Vec::new();
        for (name, user) in names.iter().zip((0..24).map(UserNumber)) {
            taken.push(take(&shares, user, Some((name, false))).await);
        }
        assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 12);
        assert!(take(&shares, UserNumber(99), Some(("https://push.example", true))).await.is_ok());
    }

    #[tokio::test]
    async fn pauses_grow_with_the_number_of_waiting_deliveries_up_to_a_limit() {
        let shares = Arc::new(Shares::of(4));
        let _held = take(&shares, MALLORY, None).await.unwrap();
        let mut pauses = Vec::new();
        for _ in 0..100 {
            pauses.push(take(&shares, MALLORY, None).await.unwrap_err());
        }
        assert!(pauses.is_sorted() && pauses[0] == PAUSE && pauses[99] == LONGEST_PAUSE);
    }

    #[tokio::test]
    async fn a_call_to_a_busy_host_waits_until_another_call_ends() {
        let shares = Arc::new(Shares::of(4));
        let host = Some(("https://push.example", true));
        let mut held = Vec::new();
        for number in 0..3 {
            held.push(take(&shares, UserNumber(number), host).await.unwrap());
        }
        let later = Instant::now() + Duration::from_secs(60);
        let mut waiting: Vec<_> =
            (9..12).map(|user| Box::pin(Shares::take(&shares, UserNumber(user), host, later))).collect();
        for waiting in &mut waiting {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        held.pop();
        assert!(waiting[2].as_mut().now_or_never().is_none(), "the first in the queue gets the call");
        let share = waiting.remove(0).await.unwrap();
        drop(waiting);
        assert_eq!(Shares::take(&shares, UserNumber(8), host, Instant::now()).await.unwrap_err(), PAUSE);
        drop((share, held));
        assert!(is_idle(&shares), "finished calls leave no state");
    }
}
