//! Concurrent claims, registrations and suppressions.

use std::time::Duration;

use domain::outcome::TargetDeath;
use domain::{Channel, Reason, Status};
use serde_json::json;
use store::Error;
use store::deliveries::ledger::{Claim, ClaimRequest};

use super::LEASE;
use crate::{NOW, fixture};

#[tokio::test]
async fn a_token_registered_during_the_settlement_is_not_suppressed() -> Result<(), Error> {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({"apns": {"tokens": ["a"]}})).await;
    sqlx::query("UPDATE push_token SET registered_at = '2020-01-01'").execute(&fixture.pool).await.unwrap();
    let delivery = fixture.delivery(app, ada, Channel::MobilePush, "apns:a").await;
    let since = TargetDeath { since: Some(NOW - Duration::from_secs(1)), here_only: false };
    let dead = fixture.dead(app, ada, delivery, since).await;

    let mut writing = fixture.pool.begin().await.unwrap();
    for statement in
        ["SELECT FROM app_user FOR UPDATE", "UPDATE push_token SET registered_at = clock_timestamp()"]
    {
        sqlx::query(statement).execute(&mut *writing).await.unwrap();
    }
    let store = fixture.store.clone();
    let settling = tokio::spawn(async move { store.deliveries().settle(&[dead]).await });
    fixture.somebody_waits().await;
    writing.commit().await.unwrap();
    assert_eq!(settling.await.unwrap()?, [true]);
    assert!(fixture.suppressed().await.is_empty());
    Ok(())
}

#[tokio::test]
async fn no_dead_target_is_called_by_an_attempt_claimed_after_its_suppression_committed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({"fcm": {"tokens": ["a"]}})).await;
    let ids = [
        fixture.delivery(app, ada, Channel::MobilePush, "fcm:a").await,
        fixture.delivery(app, ada, Channel::MobilePush, "fcm:a").await,
        fixture.delivery(app, ada, Channel::MobilePush, "fcm:b").await,
    ];
    let dead = fixture.dead(app, ada, ids[0], TargetDeath::default()).await;

    // Another transaction claims two deliveries. It starts before the suppression commits and waits until afterwards,
    // because one of the two rows is locked. Whichever row that is, the delivery to the dead target must not be claimed.
    // (The fast path of claims never waits.)
    for held in [&ids[1..2], &ids[2..3]] {
        let mut holding = fixture.pool.begin().await.unwrap();
        sqlx::query("SELECT FROM delivery WHERE id = $1 FOR UPDATE")
            .bind(held[0].0)
            .execute(&mut *holding)
            .await
            .unwrap();
        let store = fixture.store.clone();
        let requests: Vec<_> = ids[1..]
            .iter()
            .map(|&delivery| ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) })
            .collect();
        let claiming = tokio::spawn(async move { store.deliveries().claim_in_full(&requests, LEASE).await });
        fixture.somebody_waits().await;
        assert_eq!(fixture.store.deliveries().settle(std::slice::from_ref(&dead)).await.unwrap().len(), 1);
        assert_eq!(fixture.suppressed().await, ["fcm:a"]);
        holding.commit().await.unwrap();
        let claims = claiming.await.unwrap().unwrap();
        let Claim::NotDue(state) = &claims[0] else { panic!("{claims:?}") };
        assert_eq!((state.status, state.reason), (Status::Skipped, Some(Reason::Suppressed)));
        assert!(matches!(claims[1], Claim::Granted { .. }), "{claims:?}");
        sqlx::query(
            "UPDATE delivery SET status = 'queued', lease_until = NULL, settled_at = NULL WHERE id = ANY($1)",
        )
        .bind(ids[1..].iter().map(|id| id.0).collect::<Vec<_>>())
        .execute(&fixture.pool)
        .await
        .unwrap();
        sqlx::query("DELETE FROM suppression").execute(&fixture.pool).await.unwrap();
        sqlx::query("UPDATE delivery SET status = 'sending', token = $2 WHERE id = $1")
            .bind(ids[0].0)
            .bind(dead.token)
            .execute(&fixture.pool)
            .await
            .unwrap();
        sqlx::query("DELETE FROM attempt").execute(&fixture.pool).await.unwrap();
    }
}
