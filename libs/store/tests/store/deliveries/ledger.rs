//! Claims of deliveries.

use std::collections::HashSet;
use std::time::Duration;

use domain::{AppId, Channel, DeliveryId, Reason, Status, UserNumber};
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use testkit::eventually;
use uuid::Uuid;

use crate::{Fixture, LIMIT, fixture, send_id};

const LEASE: Duration = Duration::from_secs(60);

fn request(app: AppId, delivery: DeliveryId, attempt: u32, provider: &str) -> ClaimRequest {
    ClaimRequest { app, delivery, attempt, provider: Some(provider.to_owned()) }
}

impl Fixture {
    async fn claim(&self, app: AppId, delivery: DeliveryId, attempt: u32, provider: &str) -> Claim {
        let mut claims =
            self.store.deliveries().claim(&[request(app, delivery, attempt, provider)], LEASE).await.unwrap();
        assert_eq!(claims.len(), 1);
        claims.remove(0)
    }

    async fn status(&self, app: AppId, delivery: DeliveryId) -> (Status, Option<Reason>) {
        let states = self.store.deliveries().delivery_states(&[(app, delivery)]).await.unwrap();
        (states[0].status, states[0].reason)
    }

    async fn update_deliveries(&self, statement: &'static str) {
        sqlx::query(statement).execute(&self.pool).await.unwrap();
    }
}

#[track_caller]
fn ours(claim: &Claim) -> (Uuid, Option<&str>) {
    match claim {
        Claim::Granted { token, provider, .. } => (*token, provider.as_deref()),
        other => panic!("not granted: {other:?}"),
    }
}

#[track_caller]
fn done(claim: Claim) -> (Status, Option<Reason>) {
    match claim {
        Claim::NotDue(state) => (state.status, state.reason),
        other => panic!("still due: {other:?}"),
    }
}

#[tokio::test]
async fn the_first_claim_gets_a_lease_and_later_claims_wait() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let claim = fixture.claim(app, id, 1, "main").await;
    let (token, provider) = ours(&claim);
    assert_eq!(provider, Some("main"));
    assert_eq!(fixture.status(app, id).await, (Status::Sending, None));
    let Claim::Leased(wait) = fixture.claim(app, id, 1, "other").await else { panic!("not leased") };
    assert!(wait > LEASE - LIMIT && wait <= LEASE, "{wait:?}");
    let stored: Uuid =
        sqlx::query_scalar("SELECT token FROM delivery").fetch_one(&fixture.pool).await.unwrap();
    assert_eq!(stored, token);
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_with_the_same_provider() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let lease = Duration::from_millis(200);
    let first =
        fixture.store.deliveries().claim(&[request(app, id, 1, "main")], lease).await.unwrap().remove(0);
    let second = eventually(LIMIT, "the lease ends", async || {
        let claim = fixture.claim(app, id, 1, "other").await;
        (!matches!(claim, Claim::Leased(_))).then_some(claim)
    })
    .await;
    let ((first, _), (second, provider)) = (ours(&first), ours(&second));
    assert_eq!(provider, Some("main"), "this provider may have received the call");
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_released_claim_that_took_over_another_keeps_the_provider() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let delivery = fixture.deliveries(app, 1).await[0];
    let claim = async || match fixture.claim(app, delivery, 1, "other").await {
        Claim::Granted { token, provider, takes_over } => (token, provider, takes_over),
        other => panic!("not granted: {other:?}"),
    };
    let release = async |token, takes_over| {
        let claim = HeldClaim { app, delivery, token, takes_over };
        assert!(fixture.store.deliveries().release(claim).await.unwrap());
    };
    let main = Some("main".to_owned());
    let first = fixture.claim(app, delivery, 1, "main").await;
    assert!(matches!(first, Claim::Granted { takes_over: false, .. }), "{first:?}");
    fixture.update_deliveries("UPDATE delivery SET lease_until = now()").await;
    for _ in 0..2 {
        let (token, provider, takes_over) = claim().await;
        assert_eq!((provider, takes_over), (main.clone(), true));
        release(token, takes_over).await;
        assert_eq!(fixture.status(app, delivery).await, (Status::Sending, None));
    }
}

#[tokio::test]
async fn a_later_attempt_may_have_another_provider() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    fixture
        .update_deliveries("UPDATE delivery SET status = 'retrying', attempt = 2, provider = 'main'")
        .await;
    let claim = fixture.claim(app, id, 2, "other").await;
    assert_eq!(ours(&claim).1, Some("other"));
}

#[tokio::test]
async fn earlier_attempts_are_done_and_later_attempts_are_missing() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let id = fixture.deliveries(app, 1).await[0];
    fixture.update_deliveries("UPDATE delivery SET status = 'retrying', attempt = 2").await;
    let Claim::NotDue(state) = fixture.claim(app, id, 1, "main").await else { panic!("still due") };
    assert_eq!(
        (state.app, state.delivery, state.send_id, state.user, state.channel, state.attempt),
        (app, id, send_id(1), UserNumber(1), Channel::Email, 2)
    );
    assert_eq!(fixture.claim(app, id, 3, "main").await, Claim::Missing);
    assert_eq!(fixture.claim(app, DeliveryId(Uuid::nil()), 1, "main").await, Claim::Missing);
    assert_eq!(fixture.claim(other, id, 2, "main").await, Claim::Missing, "wrong app");
    assert_eq!(fixture.status(app, id).await, (Status::Retrying, None), "nothing was changed");
}

#[tokio::test]
async fn claiming_an_ended_delivery_returns_its_final_status() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    for status in Status::STORED.into_iter().filter(|status| status.is_terminal()) {
        sqlx::query("UPDATE delivery SET status = $1, expires_at = now() - interval '1 day'")
            .bind(status.as_str())
            .execute(&fixture.pool)
            .await
            .unwrap();
        assert_eq!(done(fixture.claim(app, id, 1, "main").await), (status, None));
    }
}

#[tokio::test]
async fn expired_and_suppressed_deliveries_end_when_they_are_claimed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let ids = fixture.deliveries(app, 3).await;
    fixture.update_deliveries("UPDATE delivery SET expires_at = now() WHERE user_number = 1").await;
    for suppressing in [app, other] {
        sqlx::query(
            "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
             SELECT $1, 'email', 'user-' || CASE WHEN $1 = $2 THEN 2 ELSE 3 END || '@example.com', $3, '550'",
        )
        .bind(suppressing.0)
        .bind(app.0)
        .bind(ids[0].0)
        .execute(&fixture.pool)
        .await
        .unwrap();
    }
    let requests = [1, 1, 1].into_iter().zip(&ids).map(|(attempt, id)| request(app, *id, attempt, "main"));
    let claims = fixture.store.deliveries().claim(&requests.collect::<Vec<_>>(), LEASE).await.unwrap();
    let [expired, suppressed, free] = <[Claim; 3]>::try_from(claims).unwrap();
    assert_eq!(done(expired), (Status::Expired, None));
    assert_eq!(done(suppressed), (Status::Skipped, Some(Reason::Suppressed)));
    ours(&free);
    let settled = "SELECT count(*) FROM delivery WHERE settled_at IS NOT NULL AND lease_until IS NULL";
    assert_eq!(fixture.count(settled).await, 2);
}

#[tokio::test]
async fn an_expired_delivery_ends_only_after_its_lease_and_keeps_the_claim_token() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let claim = fixture.claim(app, id, 1, "main").await;
    fixture.update_deliveries("UPDATE delivery SET expires_at = now()").await;
    assert!(matches!(fixture.claim(app, id, 1, "main").await, Claim::Leased(_)));
    fixture.update_deliveries("UPDATE delivery SET lease_until = now()").await;
    assert_eq!(done(fixture.claim(app, id, 1, "main").await), (Status::Expired, None));
    let token: Uuid =
        sqlx::query_scalar("SELECT token FROM delivery").fetch_one(&fixture.pool).await.unwrap();
    assert_eq!(token, ours(&claim).0);
}

#[tokio::test]
async fn of_two_requests_in_a_batch_the_second_finds_the_delivery_leased() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 2).await;
    let unknown = DeliveryId(Uuid::nil());
    let requests = [ids[1], ids[0], ids[1], unknown].map(|id| request(app, id, 1, "main"));
    let claims = fixture.store.deliveries().claim(&requests, LEASE).await.unwrap();
    ours(&claims[0]);
    ours(&claims[1]);
    assert!(matches!(claims[2], Claim::Leased(wait) if wait > LEASE - LIMIT), "{claims:?}");
    assert_eq!(claims[3], Claim::Missing);
    assert!(fixture.store.deliveries().claim(&[], LEASE).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_concurrent_claims_exactly_one_wins_each_delivery() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 200).await;
    let claimers: Vec<_> = [false, true]
        .into_iter()
        .map(|reversed| {
            let mut requests: Vec<_> = ids.iter().map(|id| request(app, *id, 1, "main")).collect();
            if reversed {
                requests.reverse();
            }
            let store = fixture.store.clone();
            tokio::spawn(async move {
                let mut won = Vec::new();
                for some in requests.chunks(20) {
                    let claims = store.deliveries().claim(some, LEASE).await.unwrap();
                    let both = some.iter().zip(&claims);
                    won.extend(both.filter_map(|(request, claim)| match claim {
                        Claim::Granted { .. } => Some(request.delivery),
                        Claim::Leased(_) => None,
                        other => panic!("{other:?}"),
                    }));
                }
                won
            })
        })
        .collect();
    let mut won = Vec::new();
    for claimer in claimers {
        won.extend(claimer.await.unwrap());
    }
    assert_eq!((won.len(), won.iter().collect::<HashSet<_>>().len()), (200, 200));
}

#[tokio::test]
async fn a_claim_that_waited_for_another_finds_the_delivery_leased() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let mut first = fixture.pool.begin().await.unwrap();
    sqlx::query(
        "UPDATE delivery SET status = 'sending', token = gen_random_uuid(), provider = 'main',
           lease_until = now() + interval '1 minute'",
    )
    .execute(&mut *first)
    .await
    .unwrap();
    let store = fixture.store.clone();
    let second =
        tokio::spawn(async move { store.deliveries().claim(&[request(app, id, 1, "other")], LEASE).await });
    fixture.somebody_waits().await;
    first.commit().await.unwrap();
    let claim = second.await.unwrap().unwrap().remove(0);
    let Claim::Leased(wait) = claim else { panic!("{claim:?}") };
    assert!(wait > LEASE - LIMIT, "{wait:?}");
}
