//! Attachments of sends.

use std::time::Duration;

use domain::content::Attachment;
use domain::{AppId, SendId, SendRequest};
use store::deliveries::attachment::Review;

use crate::erasure::user::{LATER, chunk, timer, with_email};
use crate::{Fixture, NOW, fixture, recipient, send_id, send_to};

/// Short retention. For files stored at [`NOW`], it has ended.
const SHORT: Duration = Duration::from_secs(1);
/// Long retention. For files stored at [`NOW`], it has not ended.
const LONG: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Fixture {
    async fn keep(&self, app: AppId, send: SendId, contents: &[&[u8]]) {
        let contents: Vec<_> = contents.iter().map(|content| content.to_vec()).collect();
        self.store.deliveries().keep_attachments(app, send, &contents, NOW, SHORT).await.unwrap();
    }

    /// Reviews at most `most` files, and returns the number of removed files.
    async fn removed(&self, most: u32) -> u64 {
        self.store.deliveries().review_old_attachments(most).await.unwrap().removed
    }

    async fn an_hour_later(&self) {
        let aged = "UPDATE attachment SET keep_until = keep_until - interval '1 hour'";
        sqlx::query(aged).execute(&self.pool).await.unwrap();
    }

    async fn files(&self) -> i64 {
        self.count("SELECT count(*) FROM attachment").await
    }
}

fn with_file(send: SendRequest) -> SendRequest {
    let file = Attachment {
        number: 0,
        name: "a.txt".into(),
        content_type: "text/plain".into(),
        size: 3,
        ..Attachment::default()
    };
    SendRequest { attachments: vec![file], ..send }
}

#[tokio::test]
async fn files_are_written_once_and_belong_to_their_app() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let bytes: Vec<u8> = (0..=255).collect();
    fixture.keep(shop, send_id(1), &[&bytes, b""]).await;
    // A repeated call keeps existing files and writes missing files.
    fixture.keep(shop, send_id(1), &[b"other", b"other", b"third"]).await;
    fixture.keep(shop, send_id(2), &[]).await;
    let read = async |app, send, number| {
        fixture.store.deliveries().attachment(app, send_id(send), number).await.unwrap()
    };
    assert_eq!(read(shop, 1, 0).await, Some(bytes));
    assert_eq!(read(shop, 1, 1).await.as_deref(), Some(&b""[..]));
    assert_eq!(read(shop, 1, 2).await.as_deref(), Some(&b"third"[..]));
    assert_eq!(read(shop, 1, 3).await, None);
    assert_eq!(read(shop, 1, u32::MAX).await, None);
    assert_eq!(read(shop, 2, 0).await, None);
    assert_eq!(read(bank, 1, 0).await, None);
}

#[tokio::test]
async fn old_files_are_removed_unless_they_are_still_needed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = || with_file(send_to(vec![with_email("ada")]));
    // The sends: 1 was never accepted, 2 is delivered, 3 has a waiting delivery, and 4 is scheduled.
    for number in 1..=4 {
        fixture.keep(app, send_id(number), &[b"file"]).await;
    }
    fixture.plan(&chunk(app, 2, NOW, send())).await;
    sqlx::query("UPDATE delivery SET status = 'sent'").execute(&fixture.pool).await.unwrap();
    fixture.plan(&chunk(app, 3, NOW, send())).await;
    let scheduled = SendRequest { send_at: Some(LATER), ..send() };
    fixture.store.sends().schedule(&chunk(app, 4, NOW, scheduled), &timer(app, None)).await.unwrap();
    let contents = [b"file".to_vec()];
    fixture.store.deliveries().keep_attachments(app, send_id(5), &contents, NOW, LONG).await.unwrap();
    // Send 6 was parked before its request was stored.
    fixture.keep(app, send_id(6), &[b"file"]).await;
    sqlx::query(
        "INSERT INTO parked (id, app_id, send_id, stream, message, cause)
         VALUES (gen_random_uuid(), $1, $2, 'SEND_BULK', '', '')",
    )
    .bind(app.0)
    .bind(send_id(6).0)
    .execute(&fixture.pool)
    .await
    .unwrap();

    assert_eq!(fixture.removed(1).await, 1);
    assert_eq!(
        fixture.store.deliveries().review_old_attachments(10).await.unwrap(),
        Review { looked_at: 4, removed: 1 }
    );
    // Files that are still needed are not reviewed again for an hour.
    assert_eq!(
        fixture.store.deliveries().review_old_attachments(10).await.unwrap(),
        Review { looked_at: 0, removed: 0 }
    );
    let mut left = Vec::new();
    for number in 1..=6 {
        left.push(fixture.store.deliveries().attachment(app, send_id(number), 0).await.unwrap().is_some());
    }
    assert_eq!(left, [false, false, true, true, true, true]);

    for status in ["retrying", "sending", "parked"] {
        sqlx::query("UPDATE delivery SET status = $1").bind(status).execute(&fixture.pool).await.unwrap();
        fixture.an_hour_later().await;
        assert_eq!(fixture.removed(10).await, 0, "{status}");
    }
    sqlx::query("UPDATE delivery SET status = 'failed'").execute(&fixture.pool).await.unwrap();
    fixture.store.sends().drop_body(app, send_id(4), 0).await.unwrap();
    sqlx::query("DELETE FROM parked").execute(&fixture.pool).await.unwrap();
    fixture.an_hour_later().await;
    assert_eq!(fixture.removed(10).await, 3);
    assert_eq!(fixture.files().await, 1);
}

#[tokio::test]
async fn erasing_the_last_recipient_removes_the_files_of_a_send() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ada").await;
    let for_ada = || with_file(send_to(vec![with_email("ada")]));
    let for_both = || with_file(send_to(vec![with_email("ada"), with_email("bob")]));
    let later = |send: SendRequest| SendRequest { send_at: Some(LATER), ..send };
    for number in 1..=4 {
        fixture.keep(app, send_id(number), &[b"file", b"file"]).await;
    }
    fixture.plan(&chunk(app, 1, NOW, for_ada())).await;
    fixture.plan(&chunk(app, 2, NOW, for_both())).await;
    fixture.store.sends().schedule(&chunk(app, 3, NOW, later(for_ada())), &timer(app, None)).await.unwrap();
    fixture.store.sends().schedule(&chunk(app, 4, NOW, later(for_both())), &timer(app, None)).await.unwrap();
    fixture.erase(app, "ada", LATER).await;
    fixture.pass().await;
    let has = async |number| {
        fixture.store.deliveries().attachment(app, send_id(number), 0).await.unwrap().is_some()
    };
    let mut left = Vec::new();
    for number in 1..=4 {
        left.push(has(number).await);
    }
    assert_eq!(left, [false, true, false, true]);
    assert_eq!(fixture.files().await, 4);
    fixture.erase(app, "bob", LATER).await;
    fixture.pass().await;
    assert_eq!(fixture.files().await, 0);
}

#[tokio::test]
async fn a_send_without_recipients_loses_its_files_when_planned_or_scheduled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ada").await;
    fixture.erase(app, "ada", LATER).await;
    for number in 1..=2 {
        fixture.keep(app, send_id(number), &[b"file"]).await;
    }
    let send = with_file(send_to(vec![with_email("ada")]));
    fixture.plan(&chunk(app, 1, NOW, send.clone())).await;
    assert_eq!(fixture.files().await, 1);
    let scheduled = SendRequest { send_at: Some(LATER), ..send };
    fixture.store.sends().schedule(&chunk(app, 2, NOW, scheduled), &timer(app, None)).await.unwrap();
    assert_eq!(fixture.files().await, 0);
}

#[tokio::test]
async fn erasing_a_user_removes_files_of_sends_planned_before_the_user_existed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.keep(app, send_id(1), &[b"file"]).await;
    fixture.plan(&chunk(app, 1, NOW, with_file(send_to(vec![recipient("ada")])))).await;
    fixture.user(app, "ada").await;
    assert_eq!(fixture.files().await, 1);
    fixture.erase(app, "ada", LATER).await;
    assert_eq!(fixture.files().await, 0);
}
