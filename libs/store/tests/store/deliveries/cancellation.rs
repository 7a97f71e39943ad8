//! Cancellation of requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::content::Object;
use domain::plan;
use domain::send::Recipient;
use domain::{
    Actor, Answer, AppId, Channel, DeliveryId, DeliveryIds, Envelope, Event, Lane, Outcome, Reason, Status,
    StreamName, Timestamp, UserNumber,
};
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use store::sends::plan::Freeze;
use store::sends::planned_chunk::Decisions;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, recipient, send_id, send_to};

/// 2096-10-02
const LATER: Timestamp = Timestamp::from_millis(4_000_000_000_000);
const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn chunks(app: AppId, send: domain::SendRequest) -> [Chunk; 2] {
    let send = Arc::new(send);
    [0, 1].map(|chunk| Chunk::listed(app, send_id(1), chunk, NOW, Arc::clone(&send)))
}

/// Returns a send of two chunks over the given channels. All 600 recipients have inline profiles.
pub(crate) fn to_600(channels: &[Channel]) -> domain::SendRequest {
    let person = |number: i32| Recipient {
        profile: Some(Object::new()),
        ..recipient(&format!("user-{number}@example.com"))
    };
    domain::SendRequest { channels: Some(channels.to_vec()), ..send_to((0..600).map(person).collect()) }
}

/// Plans an email to every recipient whose chunk is not cancelled.
pub(crate) async fn finish(mut freeze: Freeze) -> Result<(), store::Error> {
    let all = freeze.write_profiles_and_read_facts().await?;
    let decide = |chunk: &Chunk| -> Decisions {
        let numbered = (chunk.chunk * 500..).zip(chunk.recipients());
        let decided = numbered.map(|(position, recipient)| {
            let person = all.user(chunk.app, &recipient.identifier);
            let facts = plan::SendFacts {
                ids: DeliveryIds::Hashed,
                send_id: chunk.send_id,
                selected: chunk.send.channels.as_deref(),
                content: &Channel::DELIVERED,
                providers: &[Channel::Email],
                push_kinds: &[],
            };
            let known = person.map(|(number, profile)| plan::Person {
                number,
                profile,
                topic_channels: None,
                turned_off: &[],
                endpoints: &[],
            });
            let decision = if all.is_cancelled(chunk) {
                plan::decide_cancelled(&facts, recipient, known)
            } else {
                plan::decide_recipient(&facts, recipient, known, &plan::SuppressedTargets::new())
            };
            (position, decision)
        });
        decided.collect()
    };
    for planned in &mut freeze.chunks {
        planned.decisions = decide(&planned.chunk);
    }
    freeze.commit(&all).await.map(drop)
}

impl Fixture {
    async fn freeze(&self, chunks: &[Chunk]) {
        finish(self.store.sends().freeze(chunks).await.unwrap()).await.unwrap();
    }

    async fn cancel(&self, app: AppId) -> u64 {
        self.store.deliveries().cancel_request(app, send_id(1), &Actor::System).await.unwrap()
    }

    /// Returns the number of cancelled (recipient, channel) pairs in the request's counts.
    async fn cancelled(&self, app: AppId) -> i64 {
        let request = self.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap();
        request.counts.values().filter_map(|statuses| statuses.get(&Status::Cancelled)).sum()
    }

    async fn first_delivery(&self) -> DeliveryId {
        let first = "SELECT id FROM delivery ORDER BY recipient_index LIMIT 1";
        DeliveryId(sqlx::query_scalar(first).fetch_one(&self.pool).await.unwrap())
    }

    async fn claim_first(&self, app: AppId, delivery: DeliveryId) -> Claim {
        let request = ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
        self.store.deliveries().claim(&[request], LEASE).await.unwrap().remove(0)
    }

    async fn settle_first(&self, app: AppId, delivery: DeliveryId, token: Uuid, sent: bool) -> bool {
        let (next, outcome) = if sent {
            (RecordedStep::End(Status::Sent, None), Outcome::Sent { provider_id: None })
        } else {
            let retry = timer(app, StreamName::Job(Channel::Email, Lane::Bulk), NOW);
            (RecordedStep::Retry(retry), Outcome::Retry { after: None, limit: None })
        };
        let answer = Answer::new(outcome, "250", "");
        let settlement = Settlement { answer, next, ..settlement(app, delivery, token) };
        self.store.deliveries().settle(&[settlement]).await.unwrap().remove(0)
    }
}

/// Returns a settlement of the first attempt, which failed.
fn settlement(app: AppId, delivery: DeliveryId, token: Uuid) -> Settlement {
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
        answer: Answer::new(Outcome::RETRY, "450", ""),
        next: RecordedStep::End(Status::Failed, None),
        job: (StreamName::Job(Channel::Email, Lane::Transactional), Vec::new().into()),
        receipts: false,
    }
}

pub(crate) fn timer(app: AppId, stream: StreamName, due_at: Timestamp) -> NewTimer {
    let message = b"later".to_vec();
    NewTimer {
        id: Uuid::new_v5(&Uuid::nil(), stream.to_string().as_bytes()),
        due_at,
        stream,
        message,
        app,
        send_id: Some(send_id(1)),
        user: None,
        wait: None,
    }
}

#[tokio::test]
async fn cancelling_ends_waiting_deliveries_and_spares_active_and_ended_ones() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let [first, _] = chunks(app, to_600(&[Channel::Email]));
    fixture.freeze(std::slice::from_ref(&first)).await;
    for statement in [
        "UPDATE delivery SET status = 'retrying', attempt = 2 WHERE recipient_index = 0",
        "UPDATE delivery SET status = 'sending', lease_until = now() + interval '1 hour' WHERE recipient_index = 1",
        "UPDATE delivery SET status = 'sending', lease_until = now() WHERE recipient_index = 2",
        "UPDATE delivery SET status = 'sent' WHERE recipient_index = 3",
        "UPDATE delivery SET status = 'parked' WHERE recipient_index = 4",
    ] {
        fixture.run(statement).await;
    }
    let streams = [StreamName::Job(Channel::Email, Lane::Bulk), StreamName::Outcome];
    let timers = streams.map(|stream| timer(app, stream, LATER));
    fixture.store.deliveries().set_timers(&timers).await.unwrap();

    assert_eq!(fixture.cancel(other).await, 0);
    assert_eq!(fixture.cancelled(app).await, 0);
    assert_eq!(fixture.cancel(app).await, 497 + 100);
    assert_eq!(fixture.cancelled(app).await, 497);
    let spared = "SELECT count(*) FROM delivery WHERE recipient_index IN (1, 3, 4) AND status <> 'cancelled'";
    assert_eq!(fixture.count(spared).await, 3);
    let ended = "SELECT count(*) FROM delivery WHERE status = 'cancelled' AND reason = 'request_cancelled'
                 AND settled_at IS NOT NULL AND lease_until IS NULL";
    assert_eq!(fixture.count(ended).await, 497);
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let due: HashMap<_, _> = due.timers.iter().map(|timer| (timer.stream, timer)).collect();
    assert_eq!(due.len(), 2);
    assert!(due.contains_key(&streams[0]), "the job is due, so that its worker publishes the outcome");
    let reported = Envelope::decode(&due[&StreamName::Outcome].message).unwrap();
    assert_eq!((reported.app, reported.send_id), (app, Some(send_id(1))));
    assert!(matches!(reported.event, Event::RequestCancelled(_)), "the cancellation is published");
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 3);
    assert_eq!(fixture.cancel(app).await, 0, "already cancelled");
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 3);
    assert!(fixture.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap().cancelled);
}

#[tokio::test]
async fn remaining_chunks_are_planned_as_cancelled_without_deliveries() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let channels = [Channel::Email, Channel::Sms, Channel::Slack];
    let [first, second] = chunks(app, to_600(&channels));
    fixture.freeze(&[first]).await;
    // 500 email deliveries are planned. Each of the other 100 recipients counts twice, once for email and once for SMS.
    // Slack does not count, because Tidings does not deliver to it.
    let stopped = fixture.cancel(app).await;
    assert_eq!(stopped, 500 + 2 * 100);
    fixture.freeze(&[second]).await;
    assert_eq!(fixture.cancelled(app).await.cast_unsigned(), stopped);
    assert_eq!(fixture.count("SELECT count(*) FROM app_user").await, 500);
    assert_eq!(fixture.count("SELECT count(*) FROM planned_recipient WHERE in_app").await, 0);
}

#[tokio::test]
async fn cancelling_a_scheduled_send_plans_it_at_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send =
        domain::SendRequest { send_at: Some(LATER), ..send_to(vec![recipient("ada"), recipient("bob")]) };
    let [chunk, _] = chunks(app, send);
    let timer = timer(app, StreamName::Send(Lane::Transactional), LATER);
    fixture.store.sends().schedule(&chunk, &timer).await.unwrap();
    assert_eq!(fixture.store.deliveries().due_timers(10).await.unwrap().timers, []);
    let stopped = fixture.cancel(app).await;
    assert_eq!(stopped, 2 * 5);
    assert_eq!(fixture.store.deliveries().due_timers(10).await.unwrap().timers.len(), 2);
    fixture.freeze(&[chunk]).await;
    assert_eq!(fixture.cancelled(app).await.cast_unsigned(), stopped);
}

#[tokio::test]
async fn an_ended_request_is_not_cancelled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, send_to(vec![recipient("ada@example.com")]));
    fixture.store.directory().merge_user(app, "ada@example.com", Object::new()).await.unwrap();
    fixture.freeze(&[chunk]).await;
    fixture.run("UPDATE delivery SET status = 'sent'").await;
    assert_eq!(fixture.cancel(app).await, 0);
    assert!(!fixture.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap().cancelled);
}

#[tokio::test]
async fn cancelling_waits_for_a_chunk_that_is_being_planned() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [first, second] = chunks(app, to_600(&[Channel::Email]));
    fixture.freeze(&[first]).await;
    let planned = [second];
    let mut freeze = fixture.store.sends().freeze(&planned).await.unwrap();
    assert!(!freeze.write_profiles_and_read_facts().await.unwrap().is_cancelled(&planned[0]));
    let store = fixture.store.clone();
    let cancelling = tokio::spawn(async move {
        store.deliveries().cancel_request(app, send_id(1), &Actor::System).await.unwrap()
    });
    fixture.somebody_waits().await;
    finish(freeze).await.unwrap();
    assert_eq!(cancelling.await.unwrap(), 600);
    assert_eq!(fixture.cancelled(app).await, 600);
}

#[tokio::test]
async fn an_attempt_under_way_is_not_retried_after_cancellation() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, send_to(vec![recipient("a@example.com"), recipient("b@example.com")]));
    for name in ["a@example.com", "b@example.com"] {
        fixture.store.directory().merge_user(app, name, Object::new()).await.unwrap();
    }
    fixture.freeze(&[chunk]).await;
    let first = fixture.first_delivery().await;
    let Claim::Granted { token, .. } = fixture.claim_first(app, first).await else { panic!("not granted") };
    assert_eq!(fixture.cancel(app).await, 1);
    assert!(!fixture.settle_first(app, first, token, false).await, "no retry follows");
    assert_eq!(fixture.count("SELECT count(*) FROM timer WHERE stream <> 'OUTCOME'").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM attempt").await, 1);
    assert_eq!(fixture.cancelled(app).await, 2);
    assert!(
        matches!(fixture.claim_first(app, first).await, Claim::NotDue(state) if state.status == Status::Cancelled)
    );
}

#[tokio::test]
async fn a_late_answer_overrides_the_cancellation_of_an_attempt_with_an_expired_lease() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, send_to(vec![recipient("ada@example.com")]));
    fixture.store.directory().merge_user(app, "ada@example.com", Object::new()).await.unwrap();
    fixture.freeze(&[chunk]).await;
    let first = fixture.first_delivery().await;
    let Claim::Granted { token, .. } = fixture.claim_first(app, first).await else { panic!("not granted") };
    assert_eq!(fixture.cancel(app).await, 0);
    fixture.run("UPDATE delivery SET lease_until = now()").await;
    let claim = fixture.claim_first(app, first).await;
    assert!(
        matches!(&claim, Claim::NotDue(state) if state.reason == Some(Reason::RequestCancelled)),
        "{claim:?}"
    );
    assert!(fixture.settle_first(app, first, token, true).await);
    assert_eq!(fixture.count("SELECT count(*) FROM delivery WHERE status = 'sent'").await, 1);
    assert!(!fixture.settle_first(app, first, token, true).await, "already settled");
}

#[tokio::test]
async fn cancellation_ends_a_retry_settled_before_it() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, send_to(vec![recipient("ada@example.com")]));
    fixture.store.directory().merge_user(app, "ada@example.com", Object::new()).await.unwrap();
    fixture.freeze(&[chunk]).await;
    let first = fixture.first_delivery().await;
    let Claim::Granted { token, .. } = fixture.claim_first(app, first).await else { panic!("not granted") };
    // Another transaction locks the table of timers, so that the settlement waits while it holds the lock on the request.
    let mut blocking = fixture.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE timer IN EXCLUSIVE MODE").execute(&mut *blocking).await.unwrap();
    let (settled, stopped, ()) = tokio::join!(
        fixture.settle_first(app, first, token, false),
        async {
            fixture.somebody_waits().await;
            fixture.cancel(app).await
        },
        async {
            testkit::eventually(crate::LIMIT, "both calls wait for a lock", async || {
                let waiting = "SELECT count(*) FROM pg_stat_activity
                               WHERE datname = current_database() AND wait_event_type = 'Lock'";
                (fixture.count(waiting).await == 2).then_some(())
            })
            .await;
            blocking.commit().await.unwrap();
        }
    );
    assert_eq!((settled, stopped), (true, 1));
    assert_eq!(fixture.cancelled(app).await, 1);
    assert_eq!(
        fixture.count("SELECT count(*) FROM timer WHERE due_at <= now() AND stream <> 'OUTCOME'").await,
        1
    );
}

#[tokio::test]
async fn cancellation_ends_deliveries_instead_of_parking_and_stops_redrives() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, send_to(vec![recipient("a@example.com"), recipient("b@example.com")]));
    for name in ["a@example.com", "b@example.com"] {
        fixture.store.directory().merge_user(app, name, Object::new()).await.unwrap();
    }
    fixture.freeze(&[chunk]).await;
    let first = fixture.first_delivery().await;
    let Claim::Granted { token, .. } = fixture.claim_first(app, first).await else { panic!("not granted") };
    fixture.run("UPDATE delivery SET status = 'parked', attempt = 2 WHERE recipient_index = 1").await;
    assert_eq!(fixture.cancel(app).await, 0);
    let parked = RecordedStep::Park(StreamName::Job(Channel::Email, Lane::Bulk), b"later".to_vec());
    let again = Settlement { next: parked, ..settlement(app, first, token) };
    assert_eq!(fixture.store.deliveries().settle(&[again]).await.unwrap(), [false]);
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 0);
    assert_eq!(fixture.cancelled(app).await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM delivery WHERE status = 'parked'").await, 1);
}

#[tokio::test]
async fn a_request_with_only_parked_deliveries_is_cancelled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [chunk, _] = chunks(app, send_to(vec![recipient("ada@example.com")]));
    fixture.store.directory().merge_user(app, "ada@example.com", Object::new()).await.unwrap();
    fixture.freeze(&[chunk]).await;
    fixture.run("UPDATE delivery SET status = 'parked'").await;
    assert_eq!(fixture.cancel(app).await, 0);
    assert!(fixture.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap().cancelled);
    // This statement simulates a redrive. The next claim still ends the delivery as cancelled.
    fixture.run("UPDATE delivery SET status = 'retrying'").await;
    let claim = fixture.claim_first(app, fixture.first_delivery().await).await;
    assert!(matches!(claim, Claim::NotDue(state) if state.status == Status::Cancelled));
}

#[tokio::test]
async fn a_send_with_many_deliveries_is_cancelled_in_steps() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let [first, _] = chunks(app, to_600(&[Channel::Email]));
    fixture.freeze(&[first]).await;
    fixture
        .run("INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
              SELECT app_id, gen_random_uuid(), send_id, recipient_index + 1000 * n, user_number, channel, target
              FROM delivery, generate_series(1, 21) n")
        .await;
    // 500 deliveries and 10,500 copies wait, and 100 recipients are not planned.
    assert_eq!(fixture.cancel(app).await, 11_000 + 100);
    assert_eq!(fixture.cancelled(app).await, 11_000);
    // An earlier call was interrupted between two steps.
    fixture.run("UPDATE delivery SET status = 'queued', reason = NULL WHERE recipient_index >= 1000").await;
    assert_eq!(fixture.cancel(app).await, 10_500);
    assert_eq!((fixture.cancelled(app).await, fixture.cancel(app).await), (11_000, 0));
}
