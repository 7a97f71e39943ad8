//! Shares of a provider's concurrent calls in one lane: one user or one host must not use all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::UserNumber;
use tokio::time::Instant;

use crate::slots::{Slot, Slots, pause};

/// Minimum and maximum pause, which grows with the number of deliveries that found the share used up.
const PAUSE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(20)];

#[derive(Debug)]
pub(crate) struct Shares {
    of_user: usize,
    of_host: usize,
    of_unproven: usize,
    users: Mutex<HashMap<UserNumber, UserShare>>,
    hosts: Mutex<HashMap<Host, Arc<Slots>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    /// A recent answer proved it alive.
    Proven(String),
    /// One limit for all other hosts, because targets can name any number of them.
    Unproven,
}

#[derive(Debug, Default)]
struct UserShare {
    under_way: usize,
    /// Deliveries refused since the share was last available.
    turned_away: usize,
}

#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    user: UserNumber,
    host: Option<(Host, Slot)>,
}

impl Shares {
    pub(crate) fn of(calls: usize) -> Shares {
        Shares {
            of_user: calls.div_ceil(4).max(1),
            of_host: (calls * 3).div_ceil(4).max(1),
            of_unproven: calls.div_ceil(2).max(1),
            users: Mutex::default(),
            hosts: Mutex::default(),
        }
    }

    /// Reserves a call. The flag next to the host is true if a recent answer proved the host alive. With `may_claim_ahead`, a delivery to a
    /// proven host may be claimed before the host has a free call.
    ///
    /// If the share of the host is used up, waits until `latest`, but only briefly while calls to the host are under way. If no reserved
    /// call has started, the deliveries wait for the database or the provider, not for the host. The error is the pause before the next
    /// try.
    pub(crate) async fn take(
        shares: &Arc<Shares>,
        user: UserNumber,
        host: Option<(&str, bool)>,
        may_claim_ahead: bool,
        latest: Instant,
    ) -> Result<Share, Duration> {
        let mut share = Shares::take_for_user(shares, user)?;
        if let Some((name, is_proven)) = host {
            let host = if is_proven { Host::Proven(name.to_owned()) } else { Host::Unproven };
            let slot = Slot::of(&shares.of_host(&host));
            let (_, slot) = share.host.insert((host, slot));
            let may_claim_ahead = may_claim_ahead && is_proven && !slot.slots().is_slow();
            if !slot.reserve_until(latest, may_claim_ahead).await {
                return Err(slot.slots().turn_away(PAUSE));
            }
        }
        Ok(share)
    }

    fn take_for_user(shares: &Arc<Shares>, user: UserNumber) -> Result<Share, Duration> {
        let mut users = locked(&shares.users);
        let of_user = users.entry(user).or_default();
        if of_user.under_way >= shares.of_user {
            of_user.turned_away += 1;
            return Err(pause(of_user.turned_away, shares.of_user, PAUSE));
        }
        *of_user = UserShare { under_way: of_user.under_way + 1, turned_away: 0 };
        drop(users);
        Ok(Share { shares: Arc::clone(shares), user, host: None })
    }

    fn of_host(&self, host: &Host) -> Arc<Slots> {
        let most = match host {
            Host::Proven(_) => self.of_host,
            Host::Unproven => self.of_unproven,
        };
        Arc::clone(locked(&self.hosts).entry(host.clone()).or_insert_with(|| Slots::new(most)))
    }
}

impl Share {
    pub(crate) fn is_ahead(&self) -> bool {
        self.host.as_ref().is_some_and(|(_, slot)| slot.is_ahead())
    }

    /// Returns false if the host has become too slow. Then no delivery is claimed ahead for it until one of its calls ends.
    pub(crate) async fn start(&mut self, latest: Instant) -> bool {
        match &mut self.host {
            Some((_, slot)) => slot.start(latest).await,
            None => true,
        }
    }

    pub(crate) fn begin_call(&mut self) {
        if let Some((_, slot)) = &mut self.host {
            slot.begin_call();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((host, slot)) = self.host.take() {
            drop(slot);
            let mut hosts = locked(&self.shares.hosts);
            if hosts.get(&host).is_some_and(|unused| Arc::strong_count(unused) == 1) {
                hosts.remove(&host);
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
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use tokio::time::timeout_at;

    use crate::slots::{AHEAD, HOST_PATIENCE};

    const MALLORY: UserNumber = UserNumber(0);
    const BOB: UserNumber = UserNumber(1);

    async fn take(
        shares: &Arc<Shares>,
        user: UserNumber,
        host: Option<(&str, bool)>,
    ) -> Result<Share, Duration> {
        Shares::take(shares, user, host, false, Instant::now()).await
    }

    /// Reserves calls for the users 0 to 2.
    async fn three_calls(shares: &Arc<Shares>, host: Option<(&str, bool)>) -> Vec<Share> {
        let mut held = Vec::new();
        for user in 0..3 {
            held.push(take(shares, UserNumber(user), host).await.unwrap());
        }
        held
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
        assert_eq!(take(&shares, MALLORY, None).await.unwrap_err(), PAUSE[0]);
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
        assert!(pauses.is_sorted() && pauses[0] == PAUSE[0] && pauses[99] == PAUSE[1]);
    }

    #[tokio::test]
    async fn a_call_to_a_busy_host_waits_until_another_call_ends() {
        let shares = Arc::new(Shares::of(4));
        let host = Some(("https://push.example", true));
        let mut held = three_calls(&shares, host).await;
        let later = Instant::now() + Duration::from_secs(60);
        let mut waiting: Vec<_> = (9..12)
            .map(|user| Box::pin(Shares::take(&shares, UserNumber(user), host, false, later)))
            .collect();
        for waiting in &mut waiting {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        held.pop();
        assert!(waiting[2].as_mut().now_or_never().is_none(), "the first in the queue gets the call");
        let share = waiting.remove(0).await.unwrap();
        drop(waiting);
        assert_eq!(take(&shares, UserNumber(8), host).await.unwrap_err(), PAUSE[0]);
        drop((share, held));
        assert!(is_idle(&shares), "finished calls leave no state");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_to_a_proven_host_are_claimed_ahead_and_start_as_others_end() {
        let shares = Arc::new(Shares::of(4));
        let ahead = async |user, host| {
            Shares::take(&shares, UserNumber(user), Some(host), true, Instant::now()).await
        };
        let host = ("https://push.example", true);
        let mut held = Vec::new();
        for user in 0..3 * i64::try_from(AHEAD).unwrap() {
            held.push(ahead(user, host).await.unwrap());
        }
        let waiting: Vec<bool> = held.iter().map(Share::is_ahead).collect();
        assert_eq!(waiting.iter().filter(|is_ahead| !**is_ahead).count(), 3);
        assert_eq!(ahead(99, host).await.unwrap_err(), PAUSE[0]);
        let mut last = held.pop().unwrap();
        assert!(!last.start(Instant::now()).await, "every call is taken");
        held.pop();
        assert_eq!(ahead(99, host).await.unwrap_err(), PAUSE[0], "no further claim is ahead of a slow host");
        held[0].begin_call();
        held.remove(0);
        let next = [ahead(99, host).await.unwrap(), ahead(98, host).await.unwrap()];
        assert_eq!(next.each_ref().map(Share::is_ahead), [false, true], "a call has ended");
        held.truncate(1);
        assert!(last.start(Instant::now()).await && !last.is_ahead());
        drop((last, held, next));

        let unproven = ("https://nx.example", false);
        let held = [ahead(1, unproven).await.unwrap(), ahead(2, unproven).await.unwrap()];
        assert!(!held.iter().any(Share::is_ahead) && ahead(3, unproven).await.is_err());
        drop(held);
        assert!(is_idle(&shares), "finished calls leave no state");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_waits_longer_for_calls_that_have_not_started() {
        let shares = Arc::new(Shares::of(4));
        let host = Some(("https://push.example", true));
        let mut held = three_calls(&shares, host).await;
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut waiting = Box::pin(Shares::take(&shares, UserNumber(9), host, false, began + second));
        assert!(timeout_at(began + HOST_PATIENCE * 5, &mut waiting).await.is_err(), "no call has started");
        held[0].begin_call();
        assert_eq!(waiting.await.unwrap_err(), PAUSE[0]);
        assert_eq!(began.elapsed(), HOST_PATIENCE * 6, "the call takes long");
        drop(held.remove(0));
        let next = take(&shares, UserNumber(7), host).await.unwrap();
        let until = Instant::now() + second;
        assert_eq!(Shares::take(&shares, UserNumber(8), host, false, until).await.unwrap_err(), PAUSE[0]);
        assert_eq!(Instant::now(), until, "no call started in time");
        drop((next, held));
        assert!(is_idle(&shares), "finished calls leave no state");
    }
}
