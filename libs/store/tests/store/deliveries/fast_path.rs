//! The fast path of claims and settlements: what it costs, and what it leaves to the statements that handle every case.

use std::collections::HashSet;
use std::time::Duration;

use domain::{
    Actor, Answer, AppId, Channel, DeliveryId, Lane, Outcome, Reason, Status, StreamName, UserNumber,
};
use store::Store;
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::settlement::{RecordedStep, Settlement};
use testkit::eventually;
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::{Fixture, LIMIT, NOW, RandomNumbers, fixture, send_id};

const LEASE: Duration = Duration::from_secs(60);
/// Deliveries of one batch.
const BATCH: usize = 16;
const ROUNDS: u64 = 150;

fn requests(app: AppId, deliveries: &[DeliveryId]) -> Vec<ClaimRequest> {
    let request = |&delivery| ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
    deliveries.iter().map(request).collect()
}

fn sent(app: AppId, delivery: DeliveryId, token: Uuid) -> Settlement {
    Settlement {
        app,
        send_id: Some(send_id(1)),
        delivery,
        user: UserNumber(1),
        token,
        attempt: 1,
        provider: Some("main".to_owned()),
        started_at: NOW,
        ended_at: NOW,
        answer: Answer::new(Outcome::Sent { provider_id: Some("m-1".to_owned()) }, "250", "ok"),
        next: RecordedStep::End(Status::Sent, None),
        job: (StreamName::Job(Channel::Email, Lane::Transactional), b"job".to_vec().into()),
        receipts: false,
    }
}

/// Returns the deliveries that were claimed, with their tokens.
fn granted(deliveries: &[DeliveryId], claims: Vec<Claim>) -> Vec<(DeliveryId, Uuid)> {
    let token = |(&delivery, claim)| match claim {
        Claim::Granted { token, .. } => Some((delivery, token)),
        _ => None,
    };
    deliveries.iter().zip(claims).filter_map(token).collect()
}

/// Numbers of inserted rows, of updated rows and of updates without new index entries, of one table.
async fn writes(fixture: &Fixture, table: &str) -> (i64, i64, i64) {
    let statement = "SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1";
    sqlx::query_as(statement).bind(table).fetch_one(&fixture.pool).await.unwrap()
}

#[tokio::test]
async fn an_attempt_writes_two_versions_of_its_delivery_and_one_row() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    // Full pages, of which the batch changes the first one.
    let deliveries = fixture.deliveries(app, 5_000).await;
    let batch = &deliveries[..BATCH];
    // One connection, which reports the statistics of all its statements.
    let store = fixture.another("").await;
    let claims = store.deliveries().claim(&requests(app, batch), LEASE).await.unwrap();
    let settlements: Vec<_> =
        granted(batch, claims).into_iter().map(|(delivery, token)| sent(app, delivery, token)).collect();
    assert_eq!(store.deliveries().settle(&settlements).await.unwrap(), [true; BATCH]);
    let most = i64::try_from(BATCH).unwrap();
    let (updates, in_place) = eventually(LIMIT, "the statistics are complete", async || {
        store.ping().await.unwrap();
        let (_, updates, in_place) = writes(&fixture, "delivery").await;
        let (attempts, ..) = writes(&fixture, "attempt").await;
        (attempts == most && updates >= 2 * most).then_some((updates, in_place))
    })
    .await;
    assert_eq!(updates, 2 * most, "updates of deliveries");
    // The claims find room on the page. The settlements may find less: PostgreSQL keeps the replaced versions while an older
    // transaction runs, even in another database.
    assert!(in_place >= most, "only {in_place} updates wrote no index entries");
    let transactions = "SELECT count(DISTINCT xmin::text) FROM (SELECT xmin FROM attempt UNION ALL SELECT xmin FROM delivery WHERE status = 'sent') AS made (xmin)";
    assert_eq!(fixture.count(transactions).await, 1, "transactions that settled the batch");
}

/// Claims a random part of the deliveries and settles what was granted. Returns the deliveries that it settled.
async fn work(store: Store, app: AppId, deliveries: Vec<DeliveryId>, start: &Barrier) -> Vec<DeliveryId> {
    start.wait().await;
    let claims = store.deliveries().claim(&requests(app, &deliveries), LEASE).await.unwrap();
    let granted = granted(&deliveries, claims);
    let settlements: Vec<_> = granted.iter().map(|&(delivery, token)| sent(app, delivery, token)).collect();
    let settled = store.deliveries().settle(&settlements).await.unwrap();
    assert!(settled.iter().all(|is_settled| *is_settled), "a valid claim was not settled");
    granted.into_iter().map(|(delivery, _)| delivery).collect()
}

#[tokio::test]
async fn two_workers_and_a_cancellation_divide_the_deliveries_of_a_send() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let deliveries = fixture.deliveries(app, 40).await;
    fixture
        .run(
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
             SELECT app_id, send_id, now(), 'bulk', 40 FROM delivery LIMIT 1",
        )
        .await;
    let mut seeded = RandomNumbers(7);
    let (mut claimed, mut cancelled) = (0, 0);
    for round in 1..=ROUNDS {
        fixture.run("TRUNCATE attempt, timer").await;
        fixture.run("UPDATE request SET cancelled_at = NULL").await;
        fixture
            .run("UPDATE delivery SET status = 'queued', reason = NULL, token = NULL, settled_at = NULL")
            .await;
        let mut parts = (0..2).map(|_| seeded.shuffled(deliveries.clone())[..30].to_vec());
        let (first, second) = (parts.next().unwrap(), parts.next().unwrap());
        let start = Barrier::new(3);
        let cancel = async {
            start.wait().await;
            fixture.store.deliveries().cancel_request(app, send_id(1), &Actor::System).await.unwrap();
        };
        let store = || fixture.store.clone();
        let (first, second, ()) =
            tokio::join!(work(store(), app, first, &start), work(store(), app, second, &start), cancel);
        let owned: HashSet<_> = first.iter().chain(&second).collect();
        assert_eq!(owned.len(), first.len() + second.len(), "round {round}: a delivery was granted twice");
        for state in fixture
            .store
            .deliveries()
            .delivery_states(&deliveries.iter().map(|&id| (app, id)).collect::<Vec<_>>())
            .await
            .unwrap()
        {
            let expected = if owned.contains(&state.delivery) {
                (Status::Sent, None)
            } else {
                (Status::Cancelled, Some(Reason::RequestCancelled))
            };
            assert_eq!((state.status, state.reason), expected, "round {round}, {}", state.delivery);
        }
        claimed += owned.len();
        cancelled += deliveries.len() - owned.len();
    }
    assert!(claimed > 100 && cancelled > 100, "{claimed} claimed, {cancelled} cancelled");
}

#[tokio::test]
async fn the_fast_path_leaves_every_exception_to_the_full_statements() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let deliveries = fixture.deliveries(app, 6).await;
    fixture.run("UPDATE delivery SET expires_at = now() WHERE user_number = 1").await;
    fixture.run("INSERT INTO erased (app_id, user_number, erased_at) SELECT app_id, 2, now() FROM delivery LIMIT 1").await;
    fixture
        .run("INSERT INTO suppression (app_id, channel, target, delivery_id, code) SELECT app_id, channel, target, id, '550' FROM delivery WHERE user_number = 3")
        .await;
    fixture
        .run("UPDATE delivery SET status = 'sending', token = gen_random_uuid(), lease_until = now(), provider = 'other' WHERE user_number = 4")
        .await;
    fixture.run("UPDATE delivery SET attempt = 2 WHERE user_number = 5").await;
    let mut claims = fixture.store.deliveries().claim(&requests(app, &deliveries), LEASE).await.unwrap();
    let provider = |claim: Option<Claim>| match claim {
        Some(Claim::Granted { provider, .. }) => provider,
        other => panic!("not granted: {other:?}"),
    };
    assert_eq!(provider(claims.pop()).as_deref(), Some("main"));
    let Some(Claim::NotDue(ahead)) = claims.pop() else { panic!("claimed an attempt that is over") };
    assert_eq!(ahead.attempt, 2);
    assert_eq!(provider(claims.pop()).as_deref(), Some("other"), "an expired claim keeps its provider");
    let ended: Vec<_> = claims
        .into_iter()
        .map(|claim| match claim {
            Claim::NotDue(state) => (state.status, state.reason),
            other => panic!("still due: {other:?}"),
        })
        .collect();
    let expected = [
        (Status::Expired, None),
        (Status::Skipped, Some(Reason::RecipientErased)),
        (Status::Skipped, Some(Reason::Suppressed)),
    ];
    assert_eq!(ended, expected);
}

#[tokio::test]
async fn the_job_of_an_earlier_attempt_gets_no_claim_for_the_current_one() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let delivery = fixture.deliveries(app, 1).await[0];
    fixture.run("UPDATE delivery SET status = 'retrying', attempt = 2").await;
    let request = |attempt| ClaimRequest { app, delivery, attempt, provider: Some("main".to_owned()) };
    let claims =
        fixture.store.deliveries().claim(&[request(1), request(2), request(1)], LEASE).await.unwrap();
    let [Claim::NotDue(_), Claim::Granted { .. }, _] = &claims[..] else { panic!("{claims:?}") };
    assert!(!matches!(claims[2], Claim::Granted { .. }), "{claims:?}");
}
