//! Sends: their checks, acceptance, dry runs, status, deliveries and cancellation.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use domain::{ActorKind, Channel, Event, Lane, SendId, Status, StreamName};
use operations::sends::submission::Submission;
use operations::{Caller, Conflict, Object, OperationError};
use serde_json::{Value, json};
use service_kit::clock;
use store::sends::pairs::{PairFilter, PairStatus};
use testkit::eventually;

use crate::system::{SOON, System, keyed, submission};

const ALL: PairFilter<'_> =
    PairFilter { recipient: None, channel: None, status: None, recipient_index: None };

fn to(recipients: &[&str]) -> Value {
    json!({"notification": {"title": "Hello"}, "sendTo": {"recipients": recipients}})
}

fn with(mut body: Value, member: &str, value: Value) -> Value {
    body[member] = value;
    body
}

/// Returns the codes of an invalid send.
fn codes(refused: &OperationError) -> Vec<&'static str> {
    let OperationError::Invalid(problems) = refused else { panic!("{refused}") };
    problems.iter().map(|problem| problem.code).collect()
}

impl System {
    /// Returns the sends that the log has stored in a lane.
    async fn stored(&self, lane: Lane) -> Vec<SendId> {
        let events = self.installation.events_in(StreamName::Send(lane)).await;
        let accepted = events.iter().filter(|envelope| matches!(envelope.event, Event::SendAccepted(_)));
        accepted.filter_map(|envelope| envelope.send_id).collect()
    }

    async fn refused(&self, submission: Submission) -> OperationError {
        self.sends.accept(&self.backend(), submission).await.unwrap_err()
    }

    async fn deliveries(&self, send: SendId) -> Vec<PairStatus> {
        let request = (self.shop.id, send);
        self.sends.deliveries(&self.backend(), request, ALL, None, 100).await.unwrap().1
    }
}

#[tokio::test]
async fn an_accepted_send_is_in_the_log_and_a_refused_one_is_not() {
    let system = System::without_services().await;
    let shop = system.shop.id;
    let send = system.accept(to(&["ada"])).await;
    assert_eq!(system.stored(Lane::Transactional).await, [send]);
    let template = json!({"notification": {"templateIdentifier": "none"}, "sendTo": {"recipients": ["ada"]}});
    assert_eq!(codes(&system.refused(submission(shop, template)).await), ["unknown_template"]);
    let strict = Submission { reject_unknown: true, ..submission(shop, to(&["ada"])) };
    assert_eq!(codes(&system.refused(strict).await), ["unknown_recipient"]);
    let topics = json!({"notification": {"title": "Hello"}, "sendTo": {"topics": ["none"]}});
    let strict = Submission { strict: true, ..submission(shop, topics) };
    assert_eq!(codes(&system.refused(strict).await), ["unknown_topic"]);
    let past = with(to(&["ada"]), "expiresAt", json!("2020-01-01T00:00:00Z"));
    let OperationError::Invalid(problems) = system.refused(submission(shop, past)).await else {
        panic!("the send has expired")
    };
    assert_eq!(problems.iter().map(|problem| problem.field.as_str()).collect::<Vec<_>>(), ["expiresAt"]);
    assert_eq!(system.stored(Lane::Transactional).await, [send]);
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_one_body_of_one_app() {
    let system = System::without_services().await;
    let (shop, backend) = (system.shop.id, system.backend());
    let keyed = |body: u8| keyed(submission(shop, to(&["ada"])), "order-7", body);
    let first = system.sends.accept(&backend, keyed(1)).await.unwrap();
    assert_eq!(system.sends.accept(&backend, keyed(1)).await.unwrap(), first);
    let refused = system.refused(keyed(2)).await;
    assert!(
        matches!(refused, OperationError::Conflict(Conflict::IdempotencyKeyReused)),
        "the key has another body: {refused}"
    );
    let late = Submission { reject_unknown: true, ..keyed(1) };
    let repeated = system.sends.accept(&backend, late).await.unwrap();
    assert_eq!(repeated, first, "a repetition is not checked again");
    let other = crate::system::keyed(submission(system.other.id, to(&["ada"])), "order-7", 2);
    assert_ne!(system.sends.accept(&system.other_backend(), other).await.unwrap(), first);
    assert_eq!(system.stored(Lane::Transactional).await.iter().filter(|send| **send == first).count(), 1);
}

#[tokio::test]
async fn sends_beyond_the_apps_rate_go_to_the_bulk_lane() {
    let system = System::without_services().await;
    let limited =
        || Submission { transactional_rate: NonZeroU32::new(1), ..submission(system.shop.id, to(&["ada"])) };
    let first = system.sends.accept(&system.backend(), limited()).await.unwrap();
    assert_eq!(system.stored(Lane::Transactional).await, [first]);
    eventually(SOON, "a second send within a second is in the bulk lane", async || {
        let send = system.sends.accept(&system.backend(), limited()).await.unwrap();
        (system.stored(Lane::Bulk).await == [send]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_shows_decisions_and_stores_nothing() {
    let system = System::without_services().await;
    let (shop, backend) = (system.shop.id, system.backend());
    system.create_user("ada").await;
    let email = json!({"email": "ada@example.com"});
    let body = with(to(&["ada"]), "channels", json!(["inApp", "email", "sms"]));
    let profile = domain::profile::Change::Merge(email.as_object().unwrap().clone());
    operations::profile::change(&system.operations, &system.user("ada"), profile).await.unwrap();
    let run = system.sends.dry_run(&backend, submission(shop, body)).await.unwrap();
    assert_eq!((run.recipients, run.more, run.ignored.len()), (1, false, 0));
    let shown = run.data.iter().map(|pair| (pair.channel, pair.status, pair.reason)).collect::<Vec<_>>();
    let in_app = (Channel::InApp, Status::Queued, None);
    assert!(shown.contains(&in_app), "{shown:?}");
    let skipped = |channel| shown.iter().find(|(shown, ..)| *shown == channel).map(|(_, status, _)| *status);
    assert_eq!(skipped(Channel::Sms), Some(Status::Skipped), "{shown:?}");
    let targets = run.data.iter().filter_map(|pair| pair.target.as_deref()).collect::<Vec<_>>();
    assert!(targets.iter().all(|target| !target.contains("ada@")), "{targets:?}");
    assert_eq!(run.counts[&Channel::InApp], BTreeMap::from([(Status::Queued, 1)]));
    let strict = Submission { reject_unknown: true, ..submission(shop, to(&["zoe"])) };
    let Err(refused) = system.sends.dry_run(&backend, strict).await else { panic!("zoe is unknown") };
    assert_eq!(codes(&refused), ["unknown_recipient"]);
    assert_eq!(system.stored(Lane::Transactional).await, []);
    assert_eq!(system.installation.count("SELECT count(*) FROM request").await, 0);
    assert_eq!(system.installation.count("SELECT count(*) FROM plan").await, 0);
}

#[tokio::test]
async fn the_status_and_the_deliveries_of_a_request_are_for_its_own_app() {
    let system = System::start().await;
    let backend = system.backend();
    let send = system.accept(to(&["ada", "eve"])).await;
    let planned = eventually(SOON, "the send is planned", async || {
        let request = system.sends.request(&backend, system.shop.id, send).await.ok()?;
        (request.planned == 2).then_some(request)
    });
    let planned = planned.await;
    assert_eq!((planned.recipients, planned.cancelled, planned.send_at), (2, false, None));
    let deliveries = system.deliveries(send).await;
    let in_app = deliveries.iter().filter(|pair| pair.position.channel == Channel::InApp);
    let recipients = in_app.filter_map(|pair| pair.recipient.as_deref()).collect::<Vec<_>>();
    assert_eq!(recipients, ["ada", "eve"]);
    let of_eve = PairFilter {
        recipient: Some("eve"),
        channel: Some(Channel::InApp),
        status: None,
        recipient_index: None,
    };
    let (accepted_at, listed) =
        system.sends.deliveries(&backend, (system.shop.id, send), of_eve, None, 10).await.unwrap();
    assert_eq!((accepted_at, listed.len()), (planned.accepted_at, 1));
    let first = system.sends.deliveries(&backend, (system.shop.id, send), ALL, None, 1).await.unwrap().1;
    let after = Some(first[0].position);
    let rest = system.sends.deliveries(&backend, (system.shop.id, send), ALL, after, 100).await.unwrap().1;
    assert_eq!(rest, deliveries[1..]);

    let (stranger, other) = (system.other_backend(), system.other.id);
    for (kind, refused) in [
        ("request", system.sends.request(&stranger, other, send).await.map(drop)),
        ("deliveries", system.sends.deliveries(&stranger, (other, send), ALL, None, 1).await.map(drop)),
        ("cancel", system.sends.cancel(&stranger, other, send).await.map(drop)),
    ] {
        assert!(matches!(refused, Err(OperationError::NotFound(Object::Request))), "{kind}: {refused:?}");
    }
}

#[tokio::test]
async fn a_cancelled_request_stays_cancelled_and_is_audited_once() {
    let system = System::start().await;
    let shop = system.shop.id;
    let later = json!(clock::now() + Duration::from_secs(3_600));
    let send = system.accept(with(to(&["ada", "eve"]), "sendAt", later)).await;
    let operator = system.operator(domain::Role::Operator);
    let cancelled = eventually(SOON, "the request is stored", async || {
        match system.sends.cancel(&operator, shop, send).await {
            Err(OperationError::NotFound(Object::Request)) => None,
            cancelled => Some(cancelled.unwrap()),
        }
    });
    assert!(cancelled.await > 0);
    assert_eq!(system.sends.cancel(&system.backend(), shop, send).await.unwrap(), 0, "nothing is left");
    assert!(system.sends.request(&system.backend(), shop, send).await.unwrap().cancelled);
    let deliveries = system.deliveries(send).await;
    assert!(deliveries.iter().all(|pair| pair.status.is_terminal()), "{deliveries:?}");
    let admin = Caller::of_command("ada".to_owned());
    let audit = operations::audit::list(&system.operations, &admin, shop.into(), 10).await.unwrap();
    let rows = audit.iter().filter(|row| row.action == "request.cancel").collect::<Vec<_>>();
    assert_eq!(rows.len(), 1, "{audit:?}");
    assert_eq!((rows[0].actor.as_str(), rows[0].actor_kind), ("operator:7", Some(ActorKind::Operator)));
}
