//! Shares of a provider's calls: no user, and no host that targets name, takes up all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::UserNumber;

/// Until a delivery comes again whose share is taken up, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// The same, at most, however many wait for the share.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// The calls under way of one provider in one lane.
#[derive(Debug)]
pub(crate) struct Shares {
    of_user: usize,
    of_host: usize,
    of_unproven: usize,
    under_way: Mutex<HashMap<Holder, Count>>,
}

/// What has a share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(UserNumber),
    /// A host that answered well lately.
    Host(String),
    /// All other hosts together: a target can name as many as it likes.
    Unproven,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    under_way: usize,
    /// Deliveries that found the share taken up since it last was not.
    turned_away: usize,
}

/// A place among the calls under way, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    holders: Vec<Holder>,
}

impl Shares {
    /// Shares of so many calls: a quarter for a user, three quarters for a host, half for all hosts that did not answer
    /// well lately.
    pub(crate) fn of(calls: usize) -> Shares {
        Shares {
            of_user: calls.div_ceil(4).max(1),
            of_host: (calls * 3).div_ceil(4).max(1),
            of_unproven: calls.div_ceil(2).max(1),
            under_way: Mutex::default(),
        }
    }

    /// Takes a place for a call to this user, at this host of the target's choice. The host's flag says whether it
    /// answered well lately. If a share is taken up, returns after which pause to try again.
    pub(crate) fn take(
        shares: &Arc<Shares>,
        user: UserNumber,
        host: Option<(&str, bool)>,
    ) -> Result<Share, Duration> {
        let mut holders = vec![Holder::User(user)];
        holders.extend(host.map(|(name, is_proven)| match is_proven {
            true => Holder::Host(name.to_owned()),
            false => Holder::Unproven,
        }));
        let mut under_way = shares.locked();
        for holder in &holders {
            let most = shares.most(holder);
            if let Some(count) = under_way.get_mut(holder).filter(|count| count.under_way >= most) {
                count.turned_away += 1;
                let rounds = u32::try_from(count.turned_away.div_ceil(most)).unwrap_or(u32::MAX);
                return Err(PAUSE.saturating_mul(rounds).min(LONGEST_PAUSE));
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
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MALLORY: UserNumber = UserNumber(0);
    const BOB: UserNumber = UserNumber(1);

    #[test]
    fn calls_of_one_user_leave_room_for_others_and_share_what_they_gave_up() {
        let shares = Arc::new(Shares::of(24));
        let held: Vec<Share> = (0..6).map(|_| Shares::take(&shares, MALLORY, None).unwrap()).collect();
        assert_eq!(Shares::take(&shares, MALLORY, None).unwrap_err(), PAUSE);
        assert!(Shares::take(&shares, BOB, None).is_ok());
        drop(held);
        assert!(Shares::take(&shares, MALLORY, None).is_ok());
        assert!(shares.locked().is_empty(), "nothing is kept of calls that have ended");
    }

    #[test]
    fn hosts_that_nothing_is_known_of_share_half_and_a_proven_one_has_room_beside_them() {
        let shares = Arc::new(Shares::of(24));
        let names: Vec<String> = (0..24).map(|number| format!("https://nx{number}.example")).collect();
        let users = (0..24).map(UserNumber);
        let taken: Vec<_> = names
            .iter()
            .zip(users)
            .map(|(name, user)| Shares::take(&shares, user, Some((name, false))))
            .collect();
        assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 12);
        assert!(Shares::take(&shares, UserNumber(99), Some(("https://push.example", true))).is_ok());
    }

    #[test]
    fn the_more_wait_for_a_share_the_later_they_come_again_within_a_bound() {
        let shares = Arc::new(Shares::of(4));
        let _held = Shares::take(&shares, MALLORY, None).unwrap();
        let pauses: Vec<Duration> =
            (0..100).map(|_| Shares::take(&shares, MALLORY, None).unwrap_err()).collect();
        assert!(pauses.is_sorted() && pauses[0] == PAUSE && pauses[99] == LONGEST_PAUSE);
    }
}
