//! Erasure of a user whose delivery a worker has claimed.

use std::time::Duration;

use domain::DeliveryId;
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use uuid::Uuid;

use crate::erasure::user::{chunk, with_email};
use crate::{NOW, fixture, send_to};

#[tokio::test]
async fn an_erasure_is_not_done_while_a_worker_renews_its_claim_on_a_delivery() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ursula").await;
    fixture.plan(&chunk(app, 1, NOW, send_to(vec![with_email("ursula")]))).await;
    let (id,): (Uuid,) = sqlx::query_as("SELECT id FROM delivery").fetch_one(&fixture.pool).await.unwrap();
    let delivery = DeliveryId(id);
    let lease = Duration::from_secs(90);
    let request = ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
    let claims = fixture.store.deliveries().claim(&[request], lease).await.unwrap();
    let [Claim::Granted { token, .. }] = claims[..] else { panic!("{claims:?}") };
    fixture.erase(app, "ursula", NOW).await;
    let due = "UPDATE erased SET erased_at = now() - interval '16 minutes', next_pass_at = now()";
    sqlx::query(due).execute(&fixture.pool).await.unwrap();
    let claim = HeldClaim { app, delivery, token, takes_over: false };
    assert_eq!(fixture.store.deliveries().renew(&[claim], lease).await.unwrap(), [true]);
    fixture.pass().await;
    assert_eq!(fixture.count("SELECT count(*) FROM erased WHERE done_at IS NOT NULL").await, 0);
    // The worker dies. Its claim ends, and the next pass ends the delivery.
    sqlx::query("UPDATE delivery SET lease_until = now()").execute(&fixture.pool).await.unwrap();
    fixture.pass().await;
    assert_eq!(
        fixture.count("SELECT count(*) FROM delivery WHERE status = 'skipped' AND target = ''").await,
        1
    );
    assert_eq!(
        fixture.count("SELECT count(*) FROM erased WHERE done_at IS NOT NULL AND digest IS NULL").await,
        1
    );
}
