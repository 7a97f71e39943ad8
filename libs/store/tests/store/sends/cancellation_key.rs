//! Cancellation of sends by their key.

use std::sync::Arc;
use std::time::Duration;

use domain::content::Object;
use domain::send::Recipient;
use domain::{Actor, AppId, Channel, SendId, StreamName, Timestamp};
use store::sends::cancellation_key::KeyedSends;
use store::sends::chunk::Chunk;

use crate::deliveries::cancellation::{chunks, finish, timer, to_600};
use crate::{Fixture, NOW, fixture, recipient, send_id, send_to};

/// 2096-10-02
const LATER: Timestamp = Timestamp::from_millis(4_000_000_000_000);
/// Retention that ended long ago for a key that was stored at [`NOW`].
const SHORT: Duration = Duration::from_secs(1);

fn to_ada() -> domain::SendRequest {
    send_to(vec![Recipient { profile: Some(Object::new()), ..recipient("ada@example.com") }])
}

fn keyed(send: domain::SendRequest) -> domain::SendRequest {
    domain::SendRequest { cancellation_key: Some("order-7".to_owned()), ..send }
}

fn all(app: AppId) -> KeyedSends<'static> {
    KeyedSends { app, key: "order-7", template: None }
}

impl Fixture {
    async fn keep_key(&self, chunk: &Chunk) {
        let sends = self.store.sends();
        sends.keep_cancellation_key(chunk.app, chunk.send_id, &chunk.send, NOW, SHORT).await.unwrap();
    }

    async fn mark(&self, sends: KeyedSends<'_>) -> Vec<SendId> {
        self.store.sends().mark_cancelled(sends, 10).await.unwrap()
    }

    async fn cancel_keyed(&self, app: AppId) -> u64 {
        let marked = self.mark(all(app)).await;
        let mut cancelled = 0;
        for &send in &marked {
            cancelled += self.store.deliveries().cancel_request(app, send, &Actor::System).await.unwrap();
        }
        self.store.sends().end_cancellation(app, &marked).await.unwrap();
        cancelled
    }

    async fn is_cancelled(&self, app: AppId, send: SendId) -> bool {
        self.store.sends().find_request(app, send).await.unwrap().unwrap().cancelled
    }

    async fn events(&self) -> i64 {
        self.count("SELECT count(*) FROM timer WHERE stream = 'OUTCOME'").await
    }
}

#[tokio::test]
async fn a_send_that_was_marked_before_is_planned_as_cancelled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunks = chunks(app, keyed(to_600(&[Channel::Email])));
    fixture.keep_key(&chunks[0]).await;
    assert_eq!(fixture.cancel_keyed(app).await, 0);
    assert_eq!(fixture.events().await, 1);
    for chunk in chunks {
        finish(fixture.store.sends().freeze(&[chunk]).await.unwrap()).await.unwrap();
    }
    assert!(fixture.is_cancelled(app, send_id(1)).await);
    assert_eq!(fixture.count("SELECT count(*) FROM delivery").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM planned_recipient").await, 600);
    assert_eq!(fixture.cancel_keyed(app).await, 0);
    assert_eq!(fixture.events().await, 1);
}

#[tokio::test]
async fn marking_waits_for_a_send_that_is_being_planned() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, keyed(to_ada()));
    fixture.keep_key(&chunk).await;
    let mut freeze = fixture.store.sends().freeze(&[chunk]).await.unwrap();
    freeze.write_profiles_and_read_facts().await.unwrap();
    let store = fixture.store.clone();
    let marking = tokio::spawn(async move { store.sends().mark_cancelled(all(app), 10).await.unwrap() });
    fixture.somebody_waits().await;
    finish(freeze).await.unwrap();
    assert_eq!(marking.await.unwrap(), [send_id(1)]);
    // An interrupted call is repeated, and finds the deliveries that were planned.
    assert_eq!(fixture.cancel_keyed(app).await, 1);
    assert!(fixture.is_cancelled(app, send_id(1)).await);
}

#[tokio::test]
async fn a_scheduled_send_that_was_marked_before_ends_at_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = domain::SendRequest { send_at: Some(LATER), ..keyed(to_ada()) };
    let chunk = Chunk::listed(app, send_id(1), 0, NOW, Arc::new(send));
    fixture.keep_key(&chunk).await;
    fixture.cancel_keyed(app).await;
    let timer = timer(app, StreamName::Send(domain::Lane::Transactional), LATER);
    assert!(fixture.store.sends().schedule(&chunk, &timer).await.unwrap());
    assert!(fixture.is_cancelled(app, send_id(1)).await);
    let due = "SELECT count(*) FROM timer WHERE stream <> 'OUTCOME' AND due_at <= now()";
    assert_eq!(fixture.count(due).await, 1);
}

#[tokio::test]
async fn a_key_belongs_to_one_app_and_a_template() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let welcome = domain::SendRequest {
        template: Some(domain::send::TemplateRef::Identifier("welcome".to_owned())),
        ..keyed(to_ada())
    };
    let sends = [(shop, 1, welcome), (shop, 2, keyed(to_ada())), (bank, 3, keyed(to_ada()))];
    for (app, number, send) in sends {
        fixture.keep_key(&Chunk::listed(app, send_id(number), 0, NOW, Arc::new(send))).await;
    }
    assert_eq!(fixture.mark(KeyedSends { template: Some("another"), ..all(shop) }).await, []);
    assert_eq!(fixture.mark(KeyedSends { template: Some("welcome"), ..all(shop) }).await, [send_id(1)]);
    assert_eq!(fixture.mark(KeyedSends { key: "order-8", ..all(shop) }).await, []);
    let mut rest = fixture.mark(all(shop)).await;
    rest.sort();
    assert_eq!(rest, [send_id(1), send_id(2)]);
    assert_eq!(fixture.count("SELECT count(*) FROM cancellation_key WHERE cancelled_at IS NULL").await, 1);
}

#[tokio::test]
async fn old_keys_are_removed_unless_their_request_exists() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, keyed(to_ada()));
    fixture.keep_key(&chunk).await;
    fixture.keep_key(&Chunk { send_id: send_id(2), ..chunk.clone() }).await;
    finish(fixture.store.sends().freeze(&[chunk]).await.unwrap()).await.unwrap();
    assert_eq!(fixture.store.sends().review_old_cancellation_keys(10).await.unwrap(), 2);
    assert_eq!(fixture.mark(all(app)).await, [send_id(1)]);
    assert_eq!(fixture.store.sends().review_old_cancellation_keys(10).await.unwrap(), 0);
}
