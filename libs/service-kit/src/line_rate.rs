use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::log_filter::OWN;

const INTERVAL: Duration = Duration::from_secs(1);

/// One line per second for each kind. The kinds must be few, such as places in the code.
#[derive(Debug)]
pub struct LineRate<K>(Mutex<HashMap<K, Kind>>);

#[derive(Debug)]
struct Kind {
    logged_at: Instant,
    left_out: u64,
}

impl<K> Default for LineRate<K> {
    fn default() -> LineRate<K> {
        LineRate(Mutex::default())
    }
}

impl<K: Eq + Hash> LineRate<K> {
    /// Returns the number of lines of this kind that were left out since the last one; None if this line must be left out.
    pub fn line(&self, kind: K, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kind) = kinds.get_mut(&kind) else {
            kinds.insert(kind, Kind { logged_at: now, left_out: 0 });
            return Some(0);
        };
        if now.duration_since(kind.logged_at) < INTERVAL {
            kind.left_out += 1;
            return None;
        }
        kind.logged_at = now;
        Some(std::mem::take(&mut kind.left_out))
    }
}

/// One line per second for each place in a library's code. A client of the gateway can cause some of them with each request.
#[derive(Debug, Default)]
pub(crate) struct OfLibraries(LineRate<Identifier>);

impl<S: Subscriber> Layer<S> for OfLibraries {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        if is_own(place.target()) {
            return true;
        }
        let Some(left_out) = self.0.line(place.callsite(), Instant::now()) else { return false };
        if left_out > 0 {
            tracing::warn!(library = place.target(), left_out, "left out repeated log lines of a library");
        }
        true
    }
}

fn is_own(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    OWN.contains(&name) || name.starts_with("tidings_")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Counts the events that pass.
    #[derive(Clone, Default)]
    struct Passed(Arc<Mutex<HashMap<String, usize>>>);

    impl<S: Subscriber> Layer<S> for Passed {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap().entry(event.metadata().target().to_owned()).or_default() += 1;
        }
    }

    #[test]
    fn a_flood_of_one_kind_gets_one_line_per_second_and_the_next_line_counts_the_rest() {
        let (rate, start) = (LineRate::default(), Instant::now());
        let lines = (0..1_000).filter_map(|_| rate.line("parse", start));
        assert_eq!(lines.collect::<Vec<_>>(), [0]);
        assert_eq!(rate.line("panic", start), Some(0), "another kind has its own lines");
        assert_eq!(rate.line("parse", start + INTERVAL), Some(999));
    }

    #[test]
    fn lines_of_libraries_are_limited_and_own_lines_are_not() {
        let passed = Passed::default();
        let subscriber = tracing_subscriber::registry().with(OfLibraries::default()).with(passed.clone());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..10 {
                tracing::error!(target: "actix_http::ws", "malformed");
                tracing::error!(target: "gateway::http", "own");
                tracing::error!(target: "tidings_gateway", "own");
            }
        });
        let passed = passed.0.lock().unwrap();
        let count = |target: &str| passed.get(target).copied().unwrap_or_default();
        assert!(count("actix_http::ws") < 10, "{passed:?}");
        assert_eq!((count("gateway::http"), count("tidings_gateway")), (10, 10));
    }
}
