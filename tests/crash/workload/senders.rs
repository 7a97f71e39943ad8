//! The apps' backends, which make the sends. A backend repeats a send with the same idempotency key until it is confirmed, and
//! alternates between the two gateways.

use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::clock;
use suite::Api;
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use crate::journal::Line;
use crate::workload::probe::{PendingProbe, Probe};
use crate::workload::{Notice, Workload, email, identifier};

/// Pause of a client between two tries.
pub(super) const BACK_OFF: Duration = Duration::from_millis(100);
/// Maximum number of sends that a client makes concurrently in a burst.
const AT_ONCE: usize = 4;
/// Time limit for the confirmation of a send. No server is unavailable for so long.
pub(super) const CONFIRMED_WITHIN: Duration = Duration::from_secs(120);

impl Workload {
    /// Makes the sends of this client, spread over the duration of the load. Clients of the large app send in bursts.
    pub(super) async fn send_all(self: Arc<Self>, client: usize, probe: Probe) {
        let numbers = &self.sends[client];
        let bursts = self.size.lasting.div_duration_f64(self.size.burst_every).ceil() as usize;
        let is_large = numbers.first().is_some_and(|number| self.notice(*number).app == 0);
        let together = if is_large { numbers.len().div_ceil(bursts) } else { 1 };
        let mut pace = self.pace(numbers.len().div_ceil(together));
        for burst in numbers.chunks(together) {
            pace.step().await;
            let sending = stream::iter(burst);
            sending.for_each_concurrent(AT_ONCE, |number| self.send_one(*number, Some(&probe))).await;
        }
    }

    /// Makes a send. The probe, if there is one, watches when the send becomes visible.
    pub(super) async fn send_one(&self, number: usize, probe: Option<&Probe>) {
        let notice = self.notice(number);
        let send_at = notice.delay.map(|delay| clock::now() + delay);
        let (request, at) = self.send(&notice, send_at).await;
        if let Some(probe) = probe
            && self.is_measured(&notice)
        {
            let recipients = notice.recipients.len();
            probe.watch(PendingProbe { request, notice: number, recipients, at }).await;
        }
        if notice.again {
            self.send(&notice, send_at).await;
        }
    }

    /// Repeats a send until it is confirmed. Returns the id of its request and the time of the confirmation.
    async fn send(&self, notice: &Notice, send_at: Option<Timestamp>) -> (Uuid, i64) {
        let (body, key) = (notice.body(send_at), notice.key());
        let mut pace = tokio::time::interval(BACK_OFF);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (began, first) = (Instant::now(), self.dice.below(2, ("gateway", notice.number)));
        for gateway in first.. {
            pace.tick().await;
            let call = self.api(notice.app, gateway).call(Method::POST, "/v3/notifications");
            let answer = Api::try_once(call.header("Idempotency-Key", &key).json(&body)).await;
            let at = clock::now().millis();
            let status = answer.as_ref().map(|(status, _)| *status);
            self.journal.write(Line::Tried { notice: notice.number, gateway: gateway % 2, at, status }).await;
            if let Some((202, answer)) = answer {
                let request = request_id(&answer);
                self.journal.write(Line::Confirmed { notice: notice.number, request, at }).await;
                return (request, at);
            }
            // Retry after a 408, which a gateway answers if it was paused while it read the request.
            let refused = status.is_some_and(|status| status < 500 && status != 408);
            assert!(!refused, "{}: {answer:?}", notice.title());
            assert!(began.elapsed() < CONFIRMED_WITHIN, "{}: {answer:?}", notice.title());
        }
        unreachable!("the loop ends only by returning")
    }

    /// Changes the addresses of some users repeatedly.
    pub(super) async fn change_addresses(self: Arc<Self>) {
        let mut pace = self.pace(self.size.moves);
        let movers = self.size.movers;
        for number in 0..self.size.moves {
            pace.step().await;
            let (user, changes) = (number % movers, 1 + number / movers);
            let api = self.api(self.people.app_of(user), number);
            let call = api.call(Method::PUT, &format!("/v3/users/{}", identifier(user)));
            let answer = Api::try_once(call.json(&json!({"email": email(user, changes)}))).await;
            let (status, at) = (answer.map(|(status, _)| status), clock::now().millis());
            self.journal.write(Line::Moved { user, changes, status, at }).await;
        }
    }
}

pub(super) fn request_id(answer: &Value) -> Uuid {
    answer["requestId"].as_str().unwrap().parse().unwrap()
}
