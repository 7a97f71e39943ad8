//! Shares of a provider's concurrent calls. They prevent one user, or one host that targets name, from using all calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::UserNumber;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Minimum pause before a delivery is retried because the share of its user or host was used up.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum length of this pause. The pause grows with the number of deliveries that found the share used up.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// Calls to one provider that are in progress in one lane, counted by user and by host.
#[derive(Debug)]
pub(crate) struct Shares {
    of_user: usize,
    of_host: usize,
    of_unproven: usize,
    under_way: Mutex<HashMap<Holder, Count>>,
    /// Notified when a call ends.
    released: Notify,
}

/// Why a call cannot be reserved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The share of the host, or of all unproven hosts, is used up. Most hosts answer soon.
    HostIsBusy,
    /// Minimum pause before the next try.
    Pause(Duration),
}

/// Owner of a share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(UserNumber),
    /// A host that a recent answer proved to be alive.
    Host(String),
    /// All other hosts together. They share one limit, because targets can name any number of hosts.
    Unproven,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    under_way: usize,
    /// Number of deliveries that were refused since the share was last available.
    turned_away: usize,
}

/// A reserved call. Dropping it releases the call.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    holders: Vec<Holder>,
}

impl Shares {
    /// Derives the limits from `calls`: a quarter for each user, three quarters for each proven host, and half for all other
    /// hosts together ([`Holder::Unproven`]).
    pub(crate) fn of(calls: usize) -> Shares {
        Shares {
            of_user: calls.div_ceil(4).max(1),
            of_host: (calls * 3).div_ceil(4).max(1),
            of_unproven: calls.div_ceil(2).max(1),
            under_way: Mutex::default(),
            released: Notify::new(),
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
        loop {
            // Created before the share is checked, so that no call that ends in between is missed.
            let released = shares.released.notified();
            match Shares::try_take(shares, user, host, Instant::now() < patience) {
                Ok(share) => return Ok(share),
                Err(Refusal::Pause(pause)) => return Err(pause),
                Err(Refusal::HostIsBusy) => drop(timeout_at(patience, released).await),
            }
        }
    }

    fn try_take(
        shares: &Arc<Shares>,
        user: UserNumber,
        host: Option<(&str, bool)>,
        can_wait: bool,
    ) -> Result<Share, Refusal> {
        let mut holders = vec![Holder::User(user)];
        if let Some((name, is_proven)) = host {
            holders.push(if is_proven { Holder::Host(name.to_owned()) } else { Holder::Unproven });
        }
        let mut under_way = shares.locked();
        for holder in &holders {
            let most = shares.most(holder);
            if let Some(count) = under_way.get_mut(holder).filter(|count| count.under_way >= most) {
                if can_wait && !matches!(holder, Holder::User(_)) {
                    return Err(Refusal::HostIsBusy);
                }
                count.turned_away += 1;
                let rounds = u32::try_from(count.turned_away.div_ceil(most)).unwrap_or(u32::MAX);
                return Err(Refusal::Pause(PAUSE.saturating_mul(rounds).min(LONGEST_PAUSE)));
            }
        }
        for holder in &holders {
            let count = under_way.entry(holder.clone()).or_default();
            *count = Count { under_way: count.under_way + 1, turned_away: 0 };
        }
        drop(under_way);
        Ok(Share { shares: Arc::clone(shares), holders })
    }

    fn most(&self, holder: &Holder) -> usize {
        match holder {
            Holder::User(_) => self.of_user,
            Holder::Host(_) => self.of_host,
            Holder::Unproven => self.of_unproven,
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Holder, Count>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut under_way = self.shares.locked();
        for holder in &self.holders {
            let Some(count) = under_way.get_mut(holder) else { continue };
            count.under_way = count.under_way.saturating_sub(1);
            if count.under_way == 0 {
                under_way.remove(holder);
            }
        }
        drop(under_way);
        self.shares.released.notify_waiters();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MALLORY: UserNumber = UserNumber(0);
    const BOB: UserNumber = UserNumber(1);

    fn take(shares: &Arc<Shares>, user: UserNumber, host: Option<(&str, bool)>) -> Result<Share, Refusal> {
        Shares::try_take(shares, user, host, false)
    }

    #[test]
    fn calls_of_one_user_leave_room_for_others_and_release_their_share() {
        let shares = Arc::new(Shares::of(24));
        let held: Vec<Share> = (0..6).map(|_| take(&shares, MALLORY, None).unwrap()).collect();
        assert_eq!(take(&shares, MALLORY, None).unwrap_err(), Refusal::Pause(PAUSE));
        assert!(take(&shares, BOB, None).is_ok());
        drop(held);
        assert!(take(&shares, MALLORY, None).is_ok());
        assert!(shares.locked().is_empty(), "finished calls leave no state");
    }

    #[test]
    fn unproven_hosts_share_half_of_the_calls_and_leave_room_for_a_proven_one() {
        let shares = Arc::new(Shares::of(24));
        let names: Vec<String> = (0..24).map(|number| format!("https://nx{number}.example")).collect();
        let users = (0..24).map(UserNumber);
        let taken: Vec<_> =
            names.iter().zip(users).map(|(name, user)| take(&shares, user, Some((name, false)))).collect();
        assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 12);
        assert!(take(&shares, UserNumber(99), Some(("https://push.example", true))).is_ok());
    }

    #[test]
    fn pauses_grow_with_the_number_of_waiting_deliveries_up_to_a_limit() {
        let shares = Arc::new(Shares::of(4));
        let _held = take(&shares, MALLORY, None).unwrap();
        let pause = |_| match take(&shares, MALLORY, None) {
            Err(Refusal::Pause(pause)) => pause,
            other => panic!("{other:?}"),
        };
        let pauses: Vec<Duration> = (0..100).map(pause).collect();
        assert!(pauses.is_sorted() && pauses[0] == PAUSE && pauses[99] == LONGEST_PAUSE);
    }

    #[tokio::test]
    async fn a_call_to_a_busy_host_waits_until_another_call_ends() {
        let shares = Arc::new(Shares::of(4));
        let host = Some(("https://push.example", true));
        let mut held: Vec<Share> =
            (0..3).map(|number| take(&shares, UserNumber(number), host).unwrap()).collect();
        let later = Instant::now() + Duration::from_secs(60);
        let mut waiting = Box::pin(Shares::take(&shares, UserNumber(9), host, later));
        assert!(waiting.as_mut().now_or_never().is_none());
        held.pop();
        let share = waiting.await.unwrap();
        assert_eq!(Shares::take(&shares, UserNumber(8), host, Instant::now()).await.unwrap_err(), PAUSE);
        drop((share, held));
        assert!(shares.locked().is_empty(), "finished calls leave no state");
    }
}
