//! Idempotency keys.

use domain::{AppId, Lane, SendId};
use store::sends::idempotency::{Reservation, ReservedSend};
use uuid::Uuid;

use crate::fixture;

fn wanted(app: AppId, key: &str, send: u128) -> Reservation {
    let send = ReservedSend { send_id: SendId(Uuid::from_u128(send)), body_hash: [7; 32], lane: Lane::Bulk };
    Reservation { app, key: key.to_owned(), send }
}

#[tokio::test]
async fn a_key_keeps_the_send_that_reserved_it_first() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    assert_eq!(fixture.store.sends().reserved_key(shop, "a").await.unwrap(), None);

    // The same key is used twice in one batch, again in a later batch, and in another app.
    let batch = [wanted(shop, "b", 1), wanted(shop, "a", 2), wanted(shop, "a", 3), wanted(bank, "a", 4)];
    let answers = fixture.store.sends().reserve_keys(&batch).await.unwrap();
    assert_eq!(answers, [batch[0].send, batch[1].send, batch[1].send, batch[3].send]);
    let later = fixture.store.sends().reserve_keys(&[wanted(shop, "a", 5)]).await.unwrap();
    assert_eq!(later, [batch[1].send]);
    assert_eq!(fixture.store.sends().reserved_key(shop, "a").await.unwrap(), Some(batch[1].send));
    assert_eq!(fixture.store.sends().reserve_keys(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn a_key_is_free_again_after_a_day() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    fixture.store.sends().reserve_keys(&[wanted(shop, "old", 1), wanted(shop, "young", 2)]).await.unwrap();
    for (key, age) in [("old", "24 hours 1 second"), ("young", "23 hours 59 minutes")] {
        sqlx::query("UPDATE idempotency_key SET created_at = now() - $2::text::interval WHERE key = $1")
            .bind(key)
            .bind(age)
            .execute(&fixture.pool)
            .await
            .unwrap();
    }
    assert_eq!(fixture.store.sends().reserved_key(shop, "old").await.unwrap(), None);
    let (old, young) = (wanted(shop, "old", 3), wanted(shop, "young", 4));
    let answers = fixture.store.sends().reserve_keys(&[old.clone(), young]).await.unwrap();
    assert_eq!(answers, [old.send, wanted(shop, "young", 2).send]);
    assert_eq!(fixture.store.sends().reserved_key(shop, "old").await.unwrap(), Some(old.send));
}

#[tokio::test]
async fn expired_keys_are_deleted_and_others_kept() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    for (number, key) in (1..).zip(["young", "old", "older", "oldest"]) {
        fixture.store.sends().reserve_keys(&[wanted(shop, key, number)]).await.unwrap();
    }
    sqlx::query("UPDATE idempotency_key SET created_at = now() - interval '25 hours' WHERE key LIKE 'old%'")
        .execute(&fixture.pool)
        .await
        .unwrap();
    let mut from = None;
    assert_eq!(fixture.store.sends().forget_free_keys(2, &mut from).await.unwrap(), 2);
    assert_eq!(fixture.store.sends().forget_free_keys(2, &mut from).await.unwrap(), 1);
    assert!(fixture.store.sends().reserved_key(shop, "young").await.unwrap().is_some());
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM idempotency_key").fetch_one(&fixture.pool).await.unwrap();
    assert_eq!(left, 1);
}

#[tokio::test]
async fn concurrent_callers_with_the_same_key_get_the_same_send() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    let (reservations, task) = fixture.store.sends().reservations();
    let task = tokio::spawn(task);
    let calls: Vec<_> = (1..=64)
        .map(|number| {
            let reservations = reservations.clone();
            tokio::spawn(async move { reservations.call(wanted(shop, "same", number)).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    drop(reservations);
    task.await.unwrap();
}
