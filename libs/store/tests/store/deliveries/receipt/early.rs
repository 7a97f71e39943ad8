//! Receipts that arrive before their attempt is settled.

use super::*;

#[tokio::test]
async fn a_receipt_that_precedes_the_settled_answer_is_recorded_after_it() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 2).await;
    sqlx::query("UPDATE delivery SET channel = 'sms'").execute(&fixture.pool).await.unwrap();
    let token = fixture.claim_sms(app, ids[0]).await;
    let receipts = [receipt(app, 1, of(ids[0]), arrived()), receipt(app, 2, by_id("p-2"), Outcome::Failed)];
    let recorded = fixture.store.deliveries().record_receipts(&receipts, &policy()).await.unwrap();
    assert_eq!(recorded, [ReceiptResult::Early, ReceiptResult::Early]);
    let look = async || {
        let now = "UPDATE early_receipt SET next_look_at = now()";
        sqlx::query(now).execute(&fixture.pool).await.unwrap();
        fixture.store.deliveries().record_early_receipts(10, &policy(), 0.5).await.unwrap()
    };
    assert_eq!(look().await, 0);
    assert_eq!(fixture.state(app, ids[0]).await, (Status::Sending, None, 1));

    let settlement = Settlement {
        app,
        send_id: Some(send_id(1)),
        delivery: ids[0],
        user: UserNumber(1),
        token,
        attempt: 1,
        provider: Some("main".to_owned()),
        started_at: NOW,
        ended_at: NOW,
        answer: Answer::new(arrived(), "201", ""),
        next: RecordedStep::End(Status::Sent, None),
        job: (STREAM, job(ids[0]).into()),
        receipts: true,
    };
    assert_eq!(fixture.store.deliveries().settle(&[settlement]).await.unwrap(), [true]);
    let sent = Outcome::Sent { provider_id: Some("p-2".to_owned()) };
    fixture.settle_sms(app, ids[1], sent, RecordedStep::End(Status::Sent, None)).await;
    assert_eq!(look().await, 2);
    assert_eq!(fixture.state(app, ids[0]).await, (Status::Delivered, None, 1));
    assert_eq!(fixture.state(app, ids[1]).await.0, Status::Failed);
    assert_eq!(fixture.count("SELECT count(*) FROM early_receipt").await, 0);
}

#[tokio::test]
async fn an_early_receipt_for_an_erased_user_loses_its_text() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.user(app, "ada").await;
    let ids = fixture.deliveries(app, 3).await;
    sqlx::query("UPDATE delivery SET channel = 'sms', user_number = CASE WHEN id = $1 THEN -1 ELSE $2 END")
        .bind(ids[2].0)
        .bind(ada.0)
        .execute(&fixture.pool)
        .await
        .unwrap();
    for id in [ids[0], ids[2]] {
        fixture.claim_sms(app, id).await;
    }
    let receipts = [
        receipt(app, 1, of(ids[0]), arrived()),
        receipt(app, 2, by_id("p-2"), Outcome::Failed),
        receipt(app, 3, of(ids[2]), arrived()),
    ];
    let recorded = fixture.store.deliveries().record_receipts(&receipts, &policy()).await.unwrap();
    assert_eq!(recorded, [ReceiptResult::Early; 3]);
    let sent = Outcome::Sent { provider_id: Some("p-2".to_owned()) };
    fixture.settle_sms(app, ids[1], sent, RecordedStep::End(Status::Sent, None)).await;

    fixture.erase(app, "ada", crate::erasure::user::LATER).await;
    fixture.pass().await;
    let words = "SELECT answer->>'message' FROM early_receipt ORDER BY id";
    let words: Vec<String> = sqlx::query_scalar(words).fetch_all(&fixture.pool).await.unwrap();
    assert_eq!(words, ["", "", "as said"]);
}

#[tokio::test]
async fn an_unmatched_receipt_is_removed_after_a_day() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.record(receipt(app, 1, by_id("foreign"), arrived())).await;
    fixture.record(receipt(app, 1, by_id("foreign"), arrived())).await;
    assert_eq!(fixture.count("SELECT count(*) FROM early_receipt").await, 1, "a repeated receipt");
    let day_ago = "UPDATE early_receipt SET created_at = now() - interval '25 hours', next_look_at = now()";
    sqlx::query(day_ago).execute(&fixture.pool).await.unwrap();
    assert_eq!(fixture.store.deliveries().record_early_receipts(10, &policy(), 0.5).await.unwrap(), 0);
    assert_eq!(fixture.count("SELECT count(*) FROM early_receipt").await, 0);
}
