//! Removal of erased users from encoded messages in the database.

use bytes::Bytes;
use domain::content::InAppContent;
use domain::event::{DeliveryJob, ItemsAdded, bundle};
use domain::send::Recipient;
use domain::{AppId, Channel, DeliveryId, Envelope, Event, SendRequest, UserNumber};
use serde_json::{Value, json};
use store::database::failure::ParkRequest;
use uuid::Uuid;

use crate::erasure::user::{LATER, STREAM, chunk, timer, with_email};
use crate::{Fixture, NOW, fixture, recipient, send_to};

impl Fixture {
    /// Returns the field `data` of every message that the query returns.
    async fn data(&self, query: &'static str) -> Vec<Value> {
        let messages: Vec<Vec<u8>> = sqlx::query_scalar(query).fetch_all(&self.pool).await.unwrap();
        let data = |message: &Vec<u8>| serde_json::from_slice::<Value>(message).unwrap()["data"].clone();
        messages.iter().map(data).collect()
    }
}

fn encoded(app: AppId, event: Event) -> Vec<u8> {
    let id = Uuid::nil();
    Envelope { id, app, at: NOW, send_id: None, caused_by: None, trace: None, event }.encode().unwrap()
}

fn job(user: UserNumber, target: &str) -> Event {
    let content = serde_json::from_value(json!({"sms": {"text": "Hello"}})).unwrap();
    let id = DeliveryId(Uuid::nil());
    Event::DeliveryJob(Box::new(DeliveryJob::first(id, Channel::Sms, user, target.to_owned(), content)))
}

#[tokio::test]
async fn scheduled_sends_lose_only_the_erased_user() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ada").await;
    let sends = [
        (1, vec![with_email("ada"), with_email("bob")]),
        (2, vec![recipient("ada")]),
        (3, vec![recipient("bob")]),
    ];
    for (number, recipients) in sends {
        let chunk = chunk(app, number, NOW, SendRequest { send_at: Some(LATER), ..send_to(recipients) });
        fixture.store.sends().schedule(&chunk, &timer(app, None)).await.unwrap();
    }
    fixture.erase(app, "ada", LATER).await;
    fixture.pass().await;

    let kept: Vec<(String, Option<String>)> =
        sqlx::query_as("SELECT body::text, title FROM request ORDER BY send_id")
            .fetch_all(&fixture.pool)
            .await
            .unwrap();
    let recipients = |index: usize| serde_json::from_str::<SendRequest>(&kept[index].0).unwrap().recipients;
    assert_eq!(recipients(0), [Recipient::erased(), with_email("bob")]);
    assert_eq!(recipients(1), [Recipient::erased()]);
    assert_eq!(recipients(2), [recipient("bob")]);
    let titles: Vec<_> = kept.iter().map(|(_, title)| title.as_deref()).collect();
    assert_eq!(titles, [Some("Title"), None, Some("Title")]);
}

#[tokio::test]
async fn parked_messages_lose_only_the_erased_user() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.user(app, "ada").await;
    let bob = fixture.user(app, "bob").await;
    let send = Event::SendAccepted(Box::new(send_to(vec![with_email("ada"), with_email("bob")])));
    let messages =
        [encoded(app, send), encoded(app, job(ada, "ada")), encoded(app, job(bob, "bob")), b"{".to_vec()];
    for (seq, message) in (1..).zip(&messages) {
        let id = Uuid::from_u128(seq.into());
        let app = Some(app);
        let parked = ParkRequest { id, app, send_id: None, stream: STREAM, seq, message, cause: "it fails" };
        fixture.store.database().park_message(&parked).await.unwrap();
    }
    fixture.erase(app, "ada", LATER).await;
    fixture.pass().await;

    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 3);
    let data = fixture.data("SELECT message FROM parked WHERE message <> '{' ORDER BY id").await;
    assert_eq!(data.len(), 2);
    let bob = json!({"identifier": "bob", "profile": {"email": "bob@example.com"}});
    assert_eq!(data[0]["recipients"], json!(["", bob]));
    assert_eq!(data[1]["target"], "bob");
}

#[tokio::test]
async fn dead_events_lose_only_the_erased_user() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.user(app, "ada").await;
    let bob = fixture.user(app, "bob").await;
    let own = |name: &str| InAppContent { title: Some(name.to_owned()), ..InAppContent::default() };
    let added = ItemsAdded {
        created_at: NOW,
        category_id: None,
        first: 0,
        contents: vec![own("for ada"), own("for both"), own("for bob")],
        recipients: vec![(ada, 0), (ada, 1), (bob, 1), (bob, 2)],
    };
    sqlx::query(
        "INSERT INTO dead_event (projection, stream, seq, message, cause)
         VALUES ('inbox', 'INBOX_0', 1, $1, ''), ('inbox', 'INBOX_0', 2, '{', '')",
    )
    .bind(encoded(app, Event::InboxItemsAdded(added)))
    .execute(&fixture.pool)
    .await
    .unwrap();
    fixture.erase(app, "ada", LATER).await;
    fixture.pass().await;

    let data = fixture.data("SELECT message FROM dead_event WHERE seq = 1").await;
    assert_eq!(data[0]["recipients"], json!([[bob, 1], [bob, 2]]));
    let titles: Vec<_> = data[0]["contents"].as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, [&json!(null), &json!("for both"), &json!("for bob")]);
}

#[tokio::test]
async fn bundles_of_dead_events_lose_only_the_erased_user() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.user(app, "ada").await;
    let bob = fixture.user(app, "bob").await;
    let added = |first, user| {
        let content = InAppContent { title: Some(format!("item {first}")), ..InAppContent::default() };
        let (contents, recipients) = (vec![content], vec![(user, 0)]);
        let added = ItemsAdded { created_at: NOW, category_id: None, first, contents, recipients };
        Bytes::from(encoded(app, Event::InboxItemsAdded(added)))
    };
    let message = bundle::encode("InboxItemsAdded", &[added(0, ada), added(1, bob)]);
    sqlx::query(
        "INSERT INTO dead_event (projection, stream, seq, message, cause) VALUES ('inbox', 'INBOX_0', 1, $1, '')",
    )
    .bind(&message[..])
    .execute(&fixture.pool)
    .await
    .unwrap();
    fixture.erase(app, "ada", LATER).await;
    fixture.pass().await;

    let left: Vec<u8> =
        sqlx::query_scalar("SELECT message FROM dead_event").fetch_one(&fixture.pool).await.unwrap();
    let parts = bundle::decode(&left.into()).unwrap();
    let Event::InboxItemsAdded(of_ada) = &parts[0].envelope.event else { panic!("{parts:?}") };
    assert_eq!((of_ada.recipients.len(), &of_ada.contents[0]), (0, &InAppContent::default()));
    assert_eq!(parts[1].message, added(1, bob));
}
