use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::principal::{Key, Principal, Proof};

/// Divisors of a room's size: all callers with a kind of proof together may use at most the resulting part. The rest is reserved for
/// callers with the API secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub token: usize,
    pub public_key: usize,
    pub nothing: usize,
}

/// Reserves seven sixteenths of a room for callers with the API secret.
pub const PARTS: Parts = Parts { token: 4, public_key: 4, nothing: 16 };
pub const FOR_STRANGERS: Parts = Parts { token: usize::MAX, public_key: usize::MAX, nothing: 1 };
/// Reserves half of a room for known peers.
pub const FOR_PEERS: Parts = Parts { nothing: 2, ..FOR_STRANGERS };

/// A limited amount of a resource. Clones share it.
#[derive(Clone, Debug)]
pub struct Quota {
    total: usize,
    parts: Parts,
    used: Arc<Mutex<Usage>>,
}

#[derive(Debug, Default)]
struct Usage {
    all: usize,
    by_proof: [usize; Proof::ALL.len()],
    by_key: HashMap<(Proof, Key), usize>,
}

/// Units of a room that a principal occupies until this is dropped.
#[derive(Debug)]
pub struct Lease {
    room: Quota,
    principal: Principal,
    units: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overuse;

impl Quota {
    pub fn new(total: usize, parts: Parts) -> Quota {
        Quota { total, parts, used: Arc::default() }
    }

    pub fn take(&self, principal: &Principal, units: usize) -> Result<Lease, Overuse> {
        let mut place = Lease { room: self.clone(), principal: *principal, units: 0 };
        place.grow(units)?;
        Ok(place)
    }

    /// More than half of the room is occupied, or more than half of the part for callers without proof.
    pub fn is_busy(&self) -> bool {
        let used = self.used();
        let nothing = Proof::Nothing;
        used.all > self.total / 2 || used.by_proof[nothing as usize] > self.limit_for(nothing) / 2
    }

    /// At least 1.
    fn limit_for(&self, proof: Proof) -> usize {
        let one_of = |parts: usize| (self.total / parts).max(1);
        match proof {
            Proof::Secret => self.total,
            Proof::Token => one_of(self.parts.token),
            Proof::PublicKey => one_of(self.parts.public_key),
            Proof::Nothing => one_of(self.parts.nothing),
        }
    }

    fn used(&self) -> MutexGuard<'_, Usage> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// After a failure, the lease is unchanged.
    pub fn grow(&mut self, units: usize) -> Result<(), Overuse> {
        if units == 0 {
            return Ok(());
        }
        let proof = self.principal.proof();
        let mut used = self.room.used();
        let free_of_all = self.room.total - used.all;
        let mut free =
            free_of_all.min(self.room.limit_for(proof).saturating_sub(used.by_proof[proof as usize]));
        if units > free {
            return Err(Overuse);
        }
        for key in self.principal.shared_keys() {
            let has = used.by_key.get(&(proof, key)).copied().unwrap_or_default();
            // Together with the new `units`, a key may occupy at most the number of units that are free before this call.
            if has + units > free {
                return Err(Overuse);
            }
            // This key may still get `free - has` units. By the same rule, the next, narrower key may occupy half of them.
            free = (free - has).div_ceil(2);
        }
        used.all += units;
        used.by_proof[proof as usize] += units;
        for key in self.principal.shared_keys() {
            *used.by_key.entry((proof, key)).or_default() += units;
        }
        self.units += units;
        Ok(())
    }

    pub fn units(&self) -> usize {
        self.units
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.units == 0 {
            return;
        }
        let proof = self.principal.proof();
        let mut used = self.room.used();
        used.all -= self.units;
        used.by_proof[proof as usize] -= self.units;
        for key in self.principal.shared_keys() {
            let key = (proof, key);
            let left = used.by_key.get(&key).copied().unwrap_or_default().saturating_sub(self.units);
            if left == 0 {
                used.by_key.remove(&key);
            } else {
                used.by_key.insert(key, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use domain::AppId;

    use super::*;
    use crate::peer::Peer;

    const TOTAL: usize = 800;

    fn peer(number: u8) -> Peer {
        Peer::of(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
    }

    /// Takes units until none is available, and returns their number.
    fn take_all(room: &Quota, principal: &Principal, places: &mut Vec<Lease>) -> usize {
        let before = places.len();
        while let Ok(place) = room.take(principal, 1) {
            places.push(place);
        }
        places.len() - before
    }

    #[test]
    fn one_app_with_its_secret_leaves_half_of_the_room_to_other_apps() {
        let room = Quota::new(TOTAL, PARTS);
        let mut places = Vec::new();
        assert_eq!(take_all(&room, &Principal::backend(AppId(1)), &mut places), TOTAL / 2);
        for app in 2..10 {
            assert!(take_all(&room, &Principal::backend(AppId(app)), &mut places) >= TOTAL >> app);
        }
    }

    #[test]
    fn unproven_callers_leave_seven_sixteenths_to_callers_with_the_secret() {
        let room = Quota::new(TOTAL, PARTS);
        let mut places = Vec::new();
        for number in 0..200 {
            // Three kinds of attack: one peer uses many user ids and apps, many peers use one user id, and many strangers call.
            for user in ["ada", "bob"] {
                take_all(&room, &Principal::claimed_user(AppId(number.into()), user, peer(1)), &mut places);
                take_all(&room, &Principal::claimed_user(AppId(1), user, peer(number)), &mut places);
                take_all(&room, &Principal::user(AppId(number.into()), user), &mut places);
            }
            take_all(&room, &Principal::stranger(peer(number)), &mut places);
        }
        assert!(places.len() <= TOTAL * 9 / 16, "{}", places.len());
        assert!(take_all(&room, &Principal::backend(AppId(300)), &mut places) >= TOTAL * 7 / 32);
    }

    #[test]
    fn a_peer_with_many_user_ids_leaves_room_to_other_peers() {
        let room = Quota::new(TOTAL, PARTS);
        let mut places = Vec::new();
        for app in 0..50 {
            for user in ["ada", "bob", "cyd"] {
                take_all(&room, &Principal::claimed_user(AppId(app), user, peer(1)), &mut places);
            }
        }
        assert!(places.len() <= TOTAL / 4 / 2, "{}", places.len());
        assert!(take_all(&room, &Principal::claimed_user(AppId(99), "ada", peer(2)), &mut places) > 0);
    }

    #[test]
    fn one_user_of_an_app_and_one_stranger_at_a_provider_leave_room_to_the_next() {
        let cases = [
            (PARTS, Principal::user(AppId(1), "mallory"), Principal::user(AppId(1), "ada")),
            (
                PARTS,
                Principal::claimed_user(AppId(1), "ada", peer(1)),
                Principal::claimed_user(AppId(1), "ada", peer(2)),
            ),
            (
                FOR_STRANGERS,
                Principal::callback(AppId(1), "main", peer(1)),
                Principal::callback(AppId(1), "main", peer(2)),
            ),
        ];
        for (parts, attacker, other) in cases {
            let room = Quota::new(TOTAL, parts);
            let mut places = Vec::new();
            let taken = take_all(&room, &attacker, &mut places);
            let left = take_all(&room, &other, &mut places);
            assert!(left >= taken / 2 && taken > 0, "{other:?}: {left} after {taken} taken");
        }
    }

    #[test]
    fn a_dropped_place_is_free_again_and_a_refused_one_takes_nothing() {
        let room = Quota::new(TOTAL, PARTS);
        let principal = Principal::user(AppId(1), "ada");
        for _ in 0..3 {
            let mut place = room.take(&principal, 20).unwrap();
            assert_eq!(place.grow(TOTAL).unwrap_err(), Overuse);
            place.grow(30).unwrap();
            assert_eq!(place.units(), 50);
            assert_eq!(room.take(&principal, 1).unwrap_err(), Overuse);
        }
        let used = room.used();
        assert!(used.by_key.is_empty());
        assert_eq!((used.all, used.by_proof), (0, [0; 4]));
    }

    #[test]
    fn the_smallest_room_serves_one_of_each() {
        let room = Quota::new(1, PARTS);
        for principal in
            [Principal::backend(AppId(1)), Principal::user(AppId(1), "ada"), Principal::stranger(peer(1))]
        {
            assert!(room.take(&principal, 1).is_ok());
        }
    }
}
