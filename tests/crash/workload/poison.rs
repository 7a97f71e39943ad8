//! A send whose handling ends the process.

use reqwest::Method;
use serde_json::json;
use suite::Api;
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use crate::workload::senders::{BACK_OFF, CONFIRMED_WITHIN, request_id};
use crate::workload::{Workload, identifier};

/// Title of the send, and marker of [`sabotage::POISON`] in every process. No other text of the run contains it.
pub(crate) const TITLE: &str = "poison";
const KEY: &str = "crash-poison";
/// The send is made after this part of the load, among other sends and faults.
const PART: usize = 10;

impl Workload {
    /// Makes the send to a user of the large app, on every channel. Returns the id of its request.
    pub(super) async fn send_poison(&self) -> Uuid {
        let recipients = [identifier(0)];
        let body = json!({"notification": {"title": TITLE}, "sendTo": {"recipients": recipients}});
        self.pace_from(PART, 100).step().await;
        let mut tries = tokio::time::interval(BACK_OFF);
        tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began = Instant::now();
        for gateway in 0.. {
            tries.tick().await;
            let call = self.api(0, gateway).call(Method::POST, "/v3/notifications");
            let answer = Api::try_once(call.header("Idempotency-Key", KEY).json(&body)).await;
            if let Some((202, answer)) = answer {
                return request_id(&answer);
            }
            assert!(began.elapsed() < CONFIRMED_WITHIN, "{TITLE}: {answer:?}");
        }
        unreachable!("the loop ends only by returning")
    }
}
