use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of keys that are counted at the same time. For a further key, the one with the fewest tries is forgotten, so that
/// strangers cannot lock others out with many keys, and a key that was tried often stays refused.
const MOST_KEYS: usize = 10_000;

/// Counts tries per key and window of time.
pub(crate) struct Tries<K> {
    most: u32,
    window: Duration,
    counted: Mutex<HashMap<K, Counted>>,
}

struct Counted {
    since: Instant,
    tries: u32,
}

impl<K: Clone + Eq + Hash> Tries<K> {
    /// Counts tries per minute.
    pub(crate) fn new(most: u32) -> Tries<K> {
        Tries::per(WINDOW, most)
    }

    pub(crate) fn per(window: Duration, most: u32) -> Tries<K> {
        Tries { most, window, counted: Mutex::default() }
    }

    /// Returns false if the key has used up its tries of this window.
    pub(crate) fn admit(&self, key: &K) -> bool {
        self.admit_at(key, Instant::now())
    }

    fn admit_at(&self, key: &K, now: Instant) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |known: &Counted| now.saturating_duration_since(known.since) < self.window;
        if let Some(known) = counted.get_mut(key).filter(|known| is_current(known)) {
            known.tries = known.tries.saturating_add(1);
            return known.tries <= self.most;
        }
        if counted.len() >= MOST_KEYS {
            counted.retain(|_, known| is_current(known));
        }
        if counted.len() >= MOST_KEYS {
            let least = counted.iter().min_by_key(|(_, known)| (known.tries, known.since));
            if let Some(least) = least.map(|(least, _)| least.clone()) {
                counted.remove(&least);
            }
        }
        counted.insert(key.clone(), Counted { since: now, tries: 1 });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_tries_in_each_minute() {
        let tries = Tries::new(2);
        let began = Instant::now();
        let admitted = |key, seconds| tries.admit_at(&key, began + Duration::from_secs(seconds));
        assert_eq!([admitted("ada", 0), admitted("ada", 1), admitted("ada", 59)], [true, true, false]);
        assert!(admitted("bob", 59), "another key has its own tries");
        assert!(admitted("ada", 60), "a new minute");
    }

    #[test]
    fn a_key_that_was_tried_often_is_kept_when_too_many_keys_are_counted() {
        let tries = Tries::new(2);
        let began = Instant::now();
        for _ in 0..3 {
            tries.admit_at(&0, began);
        }
        for key in 1..=MOST_KEYS {
            assert!(tries.admit_at(&key, began), "{key} is a new key");
        }
        assert!(!tries.admit_at(&0, began), "its tries are still counted");
        assert_eq!(tries.counted.lock().unwrap().len(), MOST_KEYS);
    }
}
