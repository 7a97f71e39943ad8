//! Costs of accepting a send in the database and the log, as counts.

use domain::{Lane, StreamName};
use serde_json::json;
use testkit::eventually;
use tokio::task::JoinSet;

use crate::service::{App, Backing, SOON, Service};

const SEND: &str = "POST /v3/notifications";
const ROUNDS: usize = 10;
/// Concurrent sends of a round.
const CONCURRENT: usize = 64;
const SENDS: usize = ROUNDS * CONCURRENT;

impl Service {
    /// Inserted and changed rows of the keys.
    async fn writes(&self) -> (i64, i64) {
        sqlx::query_as(
            "SELECT n_tup_ins, n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'idempotency_key'",
        )
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }

    /// Makes all sends, in rounds of concurrent ones.
    async fn send_all(&self, app: &App, with_key: bool) {
        let body = json!({"notification": {"title": "Shipped"}, "sendTo": {"recipients": ["ursula"]}});
        for round in 0..ROUNDS {
            let mut calls = JoinSet::new();
            for number in 0..CONCURRENT {
                let call = self.by(app, SEND).json(&body);
                let key = format!("key-{round}-{number}");
                let call = if with_key { call.header("Idempotency-Key", &key) } else { call };
                calls.spawn(call.send());
            }
            for answer in calls.join_all().await {
                answer.is(202);
            }
        }
    }

    async fn messages(&self) -> u64 {
        self.context.log.state(StreamName::Send(Lane::Transactional)).await.unwrap().messages
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_send_costs_a_share_of_a_message_and_its_key_one_row() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.send_all(&shop, false).await;
    let plain = service.messages().await;
    assert!(plain < SENDS as u64, "{plain} messages contain {SENDS} sends");

    service.send_all(&shop, true).await;
    let keys = i64::try_from(SENDS).unwrap();
    let writes = eventually(SOON, "PostgreSQL has counted the keys", async || {
        let writes = service.writes().await;
        (writes.0 >= keys).then_some(writes)
    })
    .await;
    assert_eq!(writes, (keys, 0), "inserted and changed rows for {SENDS} keys");
    let transactions = service.count("SELECT count(DISTINCT xmin::text) FROM idempotency_key").await;
    assert!(transactions < keys, "{transactions} transactions for {SENDS} keys");
    let with_keys = service.messages().await - plain;
    println!("{plain} messages without keys, {with_keys} with; {transactions} transactions");
    assert!(with_keys < SENDS as u64, "{with_keys} messages contain {SENDS} sends with keys");
}
