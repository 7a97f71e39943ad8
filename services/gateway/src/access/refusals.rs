//! Metrics and log lines for refused credentials. All refusals are counted; the rate of log lines is limited, so that an
//! attacker who guesses credentials does not fill the disk.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use domain::AppId;
use service_kit::metrics;
use web::failure::Failure;

/// Number of log slots. An app uses the slot whose index is the app's id modulo this number. Each slot gets at most one log line
/// per [`INTERVAL`].
const PLACES: usize = 32;
const INTERVAL: Duration = Duration::from_secs(1);

/// State of the limit on log lines, by slot.
pub(crate) struct Refusals {
    places: Mutex<[Place; PLACES]>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    logged_at: Option<Instant>,
    left_out: u64,
}

impl Refusals {
    pub(crate) fn new() -> Refusals {
        Refusals { places: Mutex::new([Place::default(); PLACES]) }
    }

    /// Counts a failure if it is a 401. Also logs it, unless its slot had a log line within the last second. The line names the
    /// peer and, if known, the app of the API key, but never a credential.
    pub(crate) fn note(&self, failure: &Failure, app: Option<AppId>, peer: impl Display) {
        let Failure::Refused { status: StatusCode::UNAUTHORIZED, code, .. } = failure else { return };
        ::metrics::counter!(metrics::REFUSED_CREDENTIALS, "code" => *code).increment(1);
        if let Some(left_out) = self.line(app, Instant::now()) {
            let app = app.map(tracing::field::display);
            tracing::warn!(app, %peer, code, left_out, "refused the credentials of a request");
        }
    }

    /// Decides whether to log a refusal. If so, returns the number of refusals since the last log line that were not logged;
    /// otherwise counts this refusal as not logged and returns None.
    fn line(&self, app: Option<AppId>, now: Instant) -> Option<u64> {
        let number = app.map_or(0, |app| app.0.unsigned_abs());
        let place = usize::try_from(number).unwrap_or_default() % PLACES;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.get_mut(place)?;
        if place.logged_at.is_some_and(|at| now.duration_since(at) < INTERVAL) {
            place.left_out += 1;
            return None;
        }
        place.logged_at = Some(now);
        Some(std::mem::take(&mut place.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_gets_one_line_per_second_and_the_next_line_counts_the_rest() {
        let refusals = Refusals::new();
        let start = Instant::now();
        let lines = (0..1_000).filter_map(|_| refusals.line(Some(AppId(1)), start));
        assert_eq!(lines.collect::<Vec<_>>(), [0]);
        assert_eq!(refusals.line(Some(AppId(2)), start), Some(0), "another app has its own log lines");
        assert_eq!(refusals.line(Some(AppId(1)), start + INTERVAL), Some(999));
    }
}
