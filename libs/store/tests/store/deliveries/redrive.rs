//! Redriving parked messages.

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::redrive::Skip;
use domain::{
    Actor, AppId, Channel, DeliveryId, Envelope, Event, Lane, Reason, Route, Status, StreamName, UserNumber,
};
use store::database::failure::ParkRequest;
use store::deliveries::redrive::{ParkedEntry, ParkedFilter, position_after};
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, recipient, send_id, send_to};

const STREAM: StreamName = StreamName::Job(Channel::Email, Lane::Transactional);

fn job(app: AppId, delivery: DeliveryId, user: i64) -> Vec<u8> {
    job_of(Channel::Email, app, delivery, user)
}

fn job_of(channel: Channel, app: AppId, delivery: DeliveryId, user: i64) -> Vec<u8> {
    let content = Content::Email(EmailContent { subject: "Subject".to_owned(), ..EmailContent::default() });
    let target = format!("user-{user}@example.com");
    let route =
        Route { only: Some("main".to_owned()), passed_over: vec!["second".to_owned()], ..Route::default() };
    let order = DeliveryJob {
        attempt: 9,
        route,
        ..DeliveryJob::first(delivery, channel, UserNumber(user), target, content)
    };
    let event = Event::DeliveryJob(Box::new(order));
    let id = Uuid::from_u128(77);
    let send_id = Some(send_id(1));
    Envelope { id, app, at: NOW, send_id, caused_by: None, trace: None, event }.encode().unwrap()
}

impl Fixture {
    /// Adds `count` parked deliveries of send 1. The next attempt of each is attempt 9.
    pub(crate) async fn parked(&self, app: AppId, count: i64) -> Vec<DeliveryId> {
        let ids = self.deliveries(app, count).await;
        self.all("UPDATE delivery SET status = 'parked', reason = 'retries_exhausted', attempt = 9, provider = 'main'").await;
        for (user, id) in (1..).zip(&ids) {
            sqlx::query(
                "INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
                 VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, $6, '450')",
            )
            .bind(app.0)
            .bind(send_id(1).0)
            .bind(id.0)
            .bind(user)
            .bind(STREAM.to_string())
            .bind(job(app, *id, user))
            .execute(&self.pool)
            .await
            .unwrap();
        }
        ids
    }

    pub(crate) async fn all(&self, statement: &'static str) {
        sqlx::query(statement).execute(&self.pool).await.unwrap();
    }

    async fn redrive(&self, filter: ParkedFilter) -> Vec<ParkedEntry> {
        self.store.deliveries().redrive(&filter, None, 100, NOW, &Actor::System).await.unwrap()
    }
}

#[tokio::test]
async fn a_redrive_sets_a_new_timer_removes_the_parked_row_and_is_audited() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.parked(app, 1).await[0];
    let listed = fixture.store.deliveries().list_parked(&ParkedFilter::default(), None, 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].skip, listed[0].delivery), (1, None, Some(id)));
    assert_eq!(listed[0].target.as_deref(), Some("user-1@example.com"));
    let redriven = fixture.redrive(ParkedFilter::default()).await;
    assert_eq!(redriven, listed, "the list shows the same entries");
    let state = fixture.store.deliveries().delivery_states(&[(app, id)]).await.unwrap().remove(0);
    assert_eq!((state.status, state.reason, state.attempt), (Status::Retrying, None, 9));
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 0);
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let envelope = Envelope::decode(&due.timers[0].message).unwrap();
    assert_eq!((due.timers[0].stream, due.timers[0].id), (STREAM, envelope.id));
    assert_ne!(envelope.id, Uuid::from_u128(77), "a repeated id would be dropped as a duplicate");
    let Event::DeliveryJob(order) = envelope.event else { panic!("no job") };
    assert_eq!((order.attempt, order.route), (9, Route::default()), "the provider is no longer enabled");
    drop(due);
    let audit = "SELECT count(*) FROM audit WHERE actor = 'system' AND action = 'parked.redrive'
                 AND subject = '00000000-0000-0000-0000-000000000001'";
    assert_eq!(fixture.count(audit).await, 1);
    assert!(fixture.redrive(ParkedFilter::default()).await.is_empty());
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 1);
}

#[tokio::test]
async fn an_sms_that_may_have_been_accepted_goes_to_no_other_provider() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.parked(app, 1).await[0];
    sqlx::query("UPDATE parked SET stream = $1, message = $2")
        .bind(StreamName::Job(Channel::Sms, Lane::Transactional).to_string())
        .bind(job_of(Channel::Sms, app, id, 1))
        .execute(&fixture.pool)
        .await
        .unwrap();
    let redriven = fixture.redrive(ParkedFilter::default()).await;
    assert_eq!((redriven[0].skip, redriven[0].channel()), (Some(Skip::ProviderGone), Some(Channel::Sms)));
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 1);
    fixture
        .all(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             SELECT id, 'main', 'sms', 'http', 1, true, '{}' FROM app",
        )
        .await;
    assert_eq!(fixture.redrive(ParkedFilter::default()).await[0].skip, None);
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let Event::DeliveryJob(order) = Envelope::decode(&due.timers[0].message).unwrap().event else {
        panic!("no job");
    };
    assert_eq!(order.route.only.as_deref(), Some("main"));
}

#[tokio::test]
async fn skipped_messages_stay_parked_and_are_reported() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 7).await;
    for statement in [
        "UPDATE delivery SET expires_at = now() WHERE user_number = 1",
        "INSERT INTO erased (app_id, user_number, erased_at) SELECT app_id, 2, now() FROM delivery LIMIT 1",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT app_id, channel, target, id, '550' FROM delivery WHERE user_number = 3",
        "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, clicked_at, event_id)
         SELECT app_id, 4, 1, send_id, now(), now(), send_id FROM delivery WHERE user_number = 4",
        "UPDATE delivery SET status = 'delivered' WHERE user_number = 5",
        "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status)
         SELECT app_id, gen_random_uuid(), send_id, recipient_index, 6, 'email', 'other@example.com', 'sent'
         FROM delivery WHERE user_number = 6",
    ] {
        fixture.all(statement).await;
    }
    let mut skips: Vec<_> = fixture
        .redrive(ParkedFilter::default())
        .await
        .iter()
        .map(|one| (one.user.unwrap().0, one.skip))
        .collect();
    skips.sort_unstable();
    let expected = [
        Some(Skip::Expired),
        Some(Skip::Erased),
        Some(Skip::Suppressed),
        Some(Skip::Read),
        Some(Skip::SettledOtherwise),
        Some(Skip::DeliveredOtherwise),
        None,
    ];
    assert_eq!(skips, (1..).zip(expected).collect::<Vec<_>>());
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 6);
    assert_eq!(fixture.count("SELECT count(*) FROM timer WHERE user_number = 7").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 1);
}

#[tokio::test]
async fn a_cancelled_request_is_not_redriven() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 1).await;
    fixture
        .all(
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients, cancelled_at)
              SELECT app_id, send_id, now(), 'bulk', 1, now() FROM delivery",
        )
        .await;
    assert_eq!(fixture.redrive(ParkedFilter::default()).await[0].skip, Some(Skip::Cancelled));
    let state =
        fixture.store.deliveries().delivery_states(&[(app, DeliveryId(Uuid::from_u128(1)))]).await.unwrap();
    assert_eq!((state[0].status, state[0].reason), (Status::Parked, Some(Reason::RetriesExhausted)));
}

#[tokio::test]
async fn only_selected_messages_are_redriven_page_by_page() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let ids = fixture.parked(app, 5).await;
    let none = async |filter| fixture.redrive(filter).await.is_empty();
    assert!(none(ParkedFilter { app: Some(other), ..ParkedFilter::default() }).await);
    assert!(none(ParkedFilter { channel: Some(Channel::Sms), ..ParkedFilter::default() }).await);
    let one = ParkedFilter { delivery: Some(ids[2]), ..ParkedFilter::default() };
    assert_eq!(fixture.redrive(one).await.len(), 1);
    fixture.all("UPDATE delivery SET expires_at = now() WHERE user_number < 3").await;
    let filter = ParkedFilter { app: Some(app), channel: Some(Channel::Email), ..ParkedFilter::default() };
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = fixture.store.deliveries().redrive(&filter, after, 2, NOW, &Actor::System).await.unwrap();
        let Some(last) = position_after(&page) else { break };
        after = Some(last);
        pages.push(page.len());
    }
    assert_eq!(pages, [2, 2]);
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 3);
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 2);
}

#[tokio::test]
async fn a_parked_send_is_redriven_unless_it_was_cancelled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let stream = StreamName::Send(Lane::Transactional);
    for number in [1, 2] {
        let event = Event::SendAccepted(Box::new(send_to(vec![recipient("ada")])));
        let id = Uuid::from_u128(number);
        let send_id = Some(send_id(number));
        let envelope = Envelope { id, app, at: NOW, send_id, caused_by: None, trace: None, event };
        let message = &envelope.encode().unwrap()[..];
        let aside = ParkRequest { id, app: Some(app), send_id, stream, seq: 1, message, cause: "22021" };
        fixture.store.database().park_message(&aside).await.unwrap();
    }
    // The five stopped deliveries are the inbox item and the four external channels of the one recipient.
    assert_eq!(fixture.store.deliveries().cancel_request(app, send_id(1), &Actor::System).await.unwrap(), 5);
    assert_eq!(fixture.store.deliveries().cancel_request(app, send_id(1), &Actor::System).await.unwrap(), 0);
    let request = fixture.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap();
    assert!(request.cancelled && !request.parked);
    let redriven = fixture.redrive(ParkedFilter { app: Some(app), ..ParkedFilter::default() }).await;
    assert_eq!((redriven.len(), redriven[0].send_id), (1, Some(send_id(2))));
    let mut due = fixture.store.deliveries().due_timers(10).await.unwrap();
    // Leave out the timer of `OUTCOME`, which publishes the cancellation.
    due.timers.retain(|timer| timer.stream != StreamName::Outcome);
    assert_eq!((due.timers.len(), due.timers[0].stream), (1, stream));
    assert_ne!(due.timers[0].id, Uuid::from_u128(2));
}
