//! Refused calls of apps. They are collected in memory and stored once a second, so that no call waits for a write.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpMessage, HttpRequest, ResponseError};
use domain::Timestamp;
use fairness::principal::{Principal, Proof};
use fairness::quota::{Lease, Parts, Quota};
use operations::Operations;
use operations::refused_calls::{self, RefusedCall};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use web::admission::RequestApp;
use web::failure::Failure;
use web::peer;

const EACH: Duration = Duration::from_secs(1);
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of different calls that wait to be stored, divided among the callers.
const ROOM: usize = 512;
const PARTS: Parts = Parts { token: 4, public_key: 4, nothing: 4 };
const STATUSES: [StatusCode; 7] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::CONFLICT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNPROCESSABLE_ENTITY,
    StatusCode::TOO_MANY_REQUESTS,
];
const MOST_FIELDS: usize = 10;
/// Length in characters.
const LONGEST_FIELD: usize = 64;
/// Characters of the API key that are stored.
const KEY_START: usize = 8;

/// Refused calls that wait to be stored.
pub(crate) struct RefusedCalls {
    waiting: Mutex<HashMap<RefusedCall, Noted>>,
    room: Quota,
    left_out: AtomicU64,
}

/// Equal calls: their number and the time of the latest.
struct Noted {
    times: u32,
    at: Timestamp,
    _place: Lease,
}

impl RefusedCalls {
    pub(crate) fn new() -> RefusedCalls {
        RefusedCalls {
            waiting: Mutex::default(),
            room: Quota::new(ROOM, PARTS),
            left_out: AtomicU64::default(),
        }
    }

    /// Notes a failure of a call with a known API key. If the caller's share of the room is used up, the call is only counted.
    pub(crate) fn note(&self, request: &HttpRequest, method: &str, failure: &Failure, at: Timestamp) {
        let status = failure.status_code();
        if !STATUSES.contains(&status) {
            return;
        }
        let Some(app) = RequestApp::of(request) else { return };
        let peer = peer::of_request(request);
        // Before the credentials are verified, the request has no principal.
        let principal = request.extensions().get().copied().unwrap_or_else(|| Principal::stranger(peer));
        let call = RefusedCall {
            app: app.app(),
            status: status.as_u16(),
            method: method.to_owned(),
            route: request.match_pattern().unwrap_or_default(),
            code: failure.code().to_owned(),
            fields: fields(failure),
            api_key: app.api_key().chars().take(KEY_START).collect(),
            client: peer.network(),
            proven: matches!(principal.proof(), Proof::Secret | Proof::Token),
        };
        self.add(call, &principal, at);
    }

    fn add(&self, call: RefusedCall, principal: &Principal, at: Timestamp) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(noted) = waiting.get_mut(&call) {
            noted.times = noted.times.saturating_add(1);
            noted.at = at;
        } else if let Ok(place) = self.room.take(principal, 1) {
            waiting.insert(call, Noted { times: 1, at, _place: place });
        } else {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stores the calls once a second until `served` is cancelled, and then the last ones.
    pub(crate) async fn store_until(&self, served: CancellationToken, operations: &Operations) {
        while served.run_until_cancelled(sleep(EACH)).await.is_some() {
            self.write(operations).await;
        }
        self.write(operations).await;
    }

    async fn write(&self, operations: &Operations) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            tracing::info!(left_out, "too many calls were refused at once; not listing all of them");
        }
        if waiting.is_empty() {
            return;
        }
        // The places are returned after the write, so that a slow database does not let the calls pile up.
        let (calls, _places): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|(call, noted)| ((call, noted.times, noted.at), noted)).unzip();
        let written = timeout(WRITTEN_WITHIN, refused_calls::add(operations, &calls)).await;
        let problem = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(error = problem, calls = calls.len(), "cannot store refused calls; dropping them");
    }
}

/// Returns the members and parameters with problems. Names that a caller invented may contain personal data, so unusual ones are
/// left out.
fn fields(failure: &Failure) -> Vec<String> {
    let Failure::Invalid(problems) = failure else { return Vec::new() };
    let is_plain =
        |field: &str| field.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-[]".contains(letter));
    let mut fields: Vec<String> = Vec::new();
    for problem in problems.iter().filter(|problem| !problem.field.is_empty()) {
        let field = if is_plain(&problem.field) { problem.field.as_str() } else { "…" };
        let field: String = field.chars().take(LONGEST_FIELD).collect();
        if fields.len() < MOST_FIELDS && !fields.contains(&field) {
            fields.push(field);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use domain::{AppId, Problem};
    use fairness::peer::Peer;

    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::of(text.parse().unwrap())
    }

    fn call(app: i64, route: &str) -> RefusedCall {
        RefusedCall {
            app: AppId(app),
            status: 400,
            method: "POST".to_owned(),
            route: route.to_owned(),
            code: "required".to_owned(),
            fields: Vec::new(),
            api_key: "k".to_owned(),
            client: "192.0.2.x".to_owned(),
            proven: true,
        }
    }

    #[test]
    fn a_flood_of_one_app_or_stranger_leaves_room_for_others() {
        let calls = RefusedCalls::new();
        for number in 0..10_000 {
            let route = number.to_string();
            calls.add(call(1, &route), &Principal::backend(AppId(1)), Timestamp::from_millis(0));
            let stranger = Principal::stranger(peer("192.0.2.1"));
            calls.add(call(2, &route), &stranger, Timestamp::from_millis(0));
        }
        let number = |app: i64| calls.waiting.lock().unwrap().keys().filter(|call| call.app.0 == app).count();
        assert!(number(1) <= ROOM / 2 && number(2) <= ROOM / 4, "{} {}", number(1), number(2));
        calls.add(call(3, "a"), &Principal::backend(AppId(3)), Timestamp::from_millis(0));
        calls.add(call(4, "a"), &Principal::stranger(peer("192.0.2.2")), Timestamp::from_millis(0));
        assert_eq!((number(3), number(4)), (1, 1));
    }

    #[test]
    fn equal_calls_are_one_entry_with_the_time_of_the_latest() {
        let calls = RefusedCalls::new();
        for at in [1, 2, 3] {
            calls.add(call(1, "a"), &Principal::backend(AppId(1)), Timestamp::from_millis(at));
        }
        let waiting = calls.waiting.lock().unwrap();
        let noted: Vec<_> = waiting.values().map(|noted| (noted.times, noted.at.millis())).collect();
        assert_eq!(noted, [(3, 3)]);
    }

    #[test]
    fn clients_are_masked_and_invented_names_are_left_out() {
        assert_eq!(peer("192.0.2.77").network(), "192.0.2.x");
        assert_eq!(peer("2001:db8:2:3:4::5").network(), "2001:db8:2::/48");
        let problems = ["recipients[0].email", "ada@example.com", "", "recipients[0].email"];
        let problems = problems.map(|field| Problem::new(field, "invalid", "invalid")).to_vec();
        assert_eq!(fields(&Failure::Invalid(problems)), ["recipients[0].email", "…"]);
    }
}
