//! Erasure of users.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::content::Object;
use domain::plan::{self, SendFacts};
use domain::send::Recipient;
use domain::{
    Actor, Answer, AppId, Channel, DeliveryIds, Lane, Outcome, Reason, SendRequest, StreamName, Timestamp,
    UserNumber,
};
use serde_json::json;
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use store::sends::planned_chunk::Decisions;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, recipient, send_id, send_to};

pub(crate) const STREAM: StreamName = StreamName::Job(Channel::Email, Lane::Transactional);
pub(crate) const LATER: Timestamp = Timestamp::from_millis(NOW.millis() + 1_000);

impl Fixture {
    pub(crate) async fn user(&self, app: AppId, identifier: &str) -> UserNumber {
        self.store.directory().merge_user(app, identifier, Object::new()).await.unwrap().number
    }

    pub(crate) async fn erase(&self, app: AppId, identifier: &str, at: Timestamp) -> UserNumber {
        let erasure = self.store.erasure().erase_user(app, identifier, at).await.unwrap().unwrap();
        let user = erasure.user();
        erasure.commit(&timer(app, None), &Actor::System).await.unwrap();
        user
    }

    /// Runs a pass, which completes erasures that are old enough.
    pub(crate) async fn pass(&self) {
        let pass = self.store.erasure().take_erased().await.unwrap();
        let is_whole = self.store.erasure().clear_erased(&pass).await.unwrap();
        self.store.erasure().end_pass(&pass, is_whole, Duration::ZERO).await.unwrap();
    }

    /// Freezes the chunk with the decisions that planning would make if the app had only an email provider, and if there
    /// were no preferences and no suppressed targets. Returns the decisions.
    pub(crate) async fn plan(&self, chunk: &Chunk) -> Decisions {
        let chunks = [chunk.clone()];
        let mut freeze = self.store.sends().freeze(&chunks).await.unwrap();
        let facts = freeze.write_profiles_and_read_facts().await.unwrap();
        let send = SendFacts {
            ids: DeliveryIds::Hashed,
            send_id: chunk.send_id,
            selected: None,
            content: &Channel::DELIVERED,
            providers: &[Channel::Email],
            push_kinds: &[],
        };
        let decide = |recipient: &Recipient| {
            if facts.is_erased(chunk, &recipient.identifier) {
                return plan::decide_erased(&send);
            }
            let user = facts.user(chunk.app, &recipient.identifier);
            let person = user.map(|(number, profile)| plan::Person {
                number,
                profile,
                topic_channels: None,
                turned_off: &[],
                endpoints: &[],
            });
            plan::decide_recipient(&send, recipient, person, &plan::SuppressedTargets::new())
        };
        freeze.chunks[0].decisions = (0..).zip(chunk.recipients().iter().map(decide)).collect();
        freeze.commit(&facts).await.unwrap().remove(0).decisions
    }

    /// Returns all rows of the table as text.
    async fn text_of(&self, table: &str) -> String {
        let statement = format!("SELECT coalesce(string_agg(t::text, '\n'), '') FROM {table} t");
        sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(&self.pool).await.unwrap()
    }
}

fn new_id() -> Uuid {
    static LAST: AtomicU64 = AtomicU64::new(0);
    Uuid::from_u128(LAST.fetch_add(1, Ordering::Relaxed).into())
}

pub(crate) fn timer(app: AppId, user: Option<UserNumber>) -> NewTimer {
    NewTimer {
        id: new_id(),
        due_at: NOW,
        stream: STREAM,
        message: b"again".to_vec(),
        app,
        send_id: None,
        user,
        wait: None,
    }
}

pub(crate) fn chunk(app: AppId, number: u128, accepted_at: Timestamp, send: SendRequest) -> Chunk {
    Chunk::listed(app, send_id(number), 0, accepted_at, Arc::new(send))
}

pub(crate) fn with_email(identifier: &str) -> Recipient {
    let profile = json!({"email": format!("{identifier}@example.com")});
    Recipient { profile: profile.as_object().cloned(), ..recipient(identifier) }
}

#[tokio::test]
async fn an_erasure_returns_the_stored_digest() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ursula").await;
    let erasure = fixture.store.erasure().erase_user(app, "ursula", NOW).await.unwrap().unwrap();
    let digest = erasure.digest().unwrap();
    erasure.commit(&timer(app, None), &Actor::System).await.unwrap();
    let kept: Vec<u8> =
        sqlx::query_scalar("SELECT digest FROM erased").fetch_one(&fixture.pool).await.unwrap();
    assert_eq!(kept, digest.0);
}

#[tokio::test]
async fn erasure_deletes_dependent_rows_and_a_new_user_gets_another_number() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    let bank = fixture.app("bank").await;
    let ursula = fixture.user(shop, "ursula").await;
    fixture.user(bank, "ursula").await;
    fixture
        .store
        .deliveries()
        .set_timers(&[timer(shop, Some(ursula)), timer(bank, Some(ursula))])
        .await
        .unwrap();

    assert!(fixture.store.erasure().erase_user(shop, "eve", NOW).await.unwrap().is_none());
    drop(fixture.store.erasure().erase_user(shop, "ursula", NOW).await.unwrap().unwrap());
    assert!(fixture.store.directory().find_user(shop, "ursula").await.unwrap().is_some());

    assert_eq!(fixture.erase(shop, "ursula", NOW).await, ursula);
    assert!(fixture.store.erasure().erase_user(shop, "ursula", NOW).await.unwrap().is_none());
    assert!(fixture.store.directory().find_user(shop, "ursula").await.unwrap().is_none());
    assert!(fixture.store.directory().find_user(bank, "ursula").await.unwrap().is_some());
    // Two timers remain: the timer of the app `bank`, and the timer that publishes the erasure.
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 2);
    assert_eq!(fixture.store.erasure().erased_users().await.unwrap(), [(shop, ursula)]);
    assert_ne!(fixture.user(shop, "ursula").await, ursula);
}

#[tokio::test]
async fn erasure_blanks_remaining_rows_and_keeps_counts() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ursula = chunk(app, 1, NOW, send_to(vec![with_email("ursula")]));
    let both = chunk(app, 2, NOW, send_to(vec![recipient("ursula"), with_email("bob")]));
    fixture.plan(&chunk(app, 3, NOW, send_to(vec![recipient("ursula")]))).await;
    fixture.plan(&ursula).await;
    fixture.plan(&both).await;
    sqlx::raw_sql(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, outcome, provider_code,
           provider_message, provider_id)
         SELECT app_id, id, 1, now(), now(), 'retry', '451', target || ' is busy', target FROM delivery;
         INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT DISTINCT ON (target) app_id, channel, target, id, '550' FROM delivery;
         INSERT INTO parked (id, app_id, delivery_id, user_number, stream, message, cause)
         SELECT gen_random_uuid(), app_id, id, user_number, 's', 'ursula', '451' FROM delivery",
    )
    .execute(&fixture.pool)
    .await
    .unwrap();
    fixture.erase(app, "ursula", LATER).await;
    fixture.pass().await;

    for table in ["planned_recipient", "delivery", "attempt", "suppression", "erased"] {
        let text = fixture.text_of(table).await;
        assert!(!text.contains("ursula"), "{table}: {text}");
        assert!(table == "erased" || text.contains("bob"), "{table}: {text}");
    }
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM delivery").await, 3);
    let ended = "SELECT count(*) FROM delivery WHERE status = 'skipped' AND reason = 'recipient_erased'";
    assert_eq!(fixture.count(ended).await, 2);
    let skipped =
        "SELECT count(*) FROM planned_recipient WHERE skips[1] = 'inApp:recipient_erased' AND NOT in_app";
    assert_eq!(fixture.count(skipped).await, 2);
    // The send that also had another recipient keeps its title.
    assert_eq!(fixture.count("SELECT count(title) FROM request").await, 1);
    let done = "SELECT count(*) FROM erased WHERE done_at IS NOT NULL AND digest IS NULL";
    assert_eq!(fixture.count(done).await, 1);
}

#[tokio::test]
async fn an_erasure_is_done_only_after_earlier_work_must_have_ended() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ursula").await;
    fixture.erase(app, "ursula", NOW).await;
    sqlx::query("UPDATE erased SET erased_at = now()").execute(&fixture.pool).await.unwrap();
    fixture.pass().await;
    let waits = "SELECT count(*) FROM erased WHERE done_at IS NULL AND digest IS NOT NULL
                 AND next_pass_at > now() + interval '14 minutes'";
    assert_eq!(fixture.count(waits).await, 1);
    assert!(fixture.store.erasure().take_erased().await.unwrap().is_empty());
    let due = "UPDATE erased SET erased_at = now() - interval '15 minutes', next_pass_at = now()";
    sqlx::query(due).execute(&fixture.pool).await.unwrap();
    let pass = fixture.store.erasure().take_erased().await.unwrap();
    assert!(pass.settled_since().is_some());
    // While the users are reserved for this pass, another instance does not get them.
    assert!(fixture.store.erasure().take_erased().await.unwrap().is_empty());
    fixture.store.erasure().end_pass(&pass, false, Duration::ZERO).await.unwrap();
    fixture.pass().await;
    assert_eq!(fixture.count("SELECT count(*) FROM erased WHERE done_at IS NULL").await, 0);
}

#[tokio::test]
async fn a_send_accepted_before_the_erasure_does_not_re_create_the_user() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.user(app, "ursula").await;
    fixture.erase(app, "ursula", NOW).await;

    let before =
        fixture.plan(&chunk(app, 1, NOW, send_to(vec![with_email("ursula"), with_email("bob")]))).await;
    assert!(before[0].1.skips.iter().all(|(_, reason)| *reason == Reason::RecipientErased));
    assert!(before[1].1.in_app);
    assert!(fixture.store.directory().find_user(app, "ursula").await.unwrap().is_none());
    fixture.plan(&chunk(app, 2, NOW, send_to(vec![with_email("ursula")]))).await;
    let scheduled =
        SendRequest { send_at: Some(LATER), ..send_to(vec![with_email("ursula"), with_email("bob")]) };
    fixture.store.sends().schedule(&chunk(app, 3, NOW, scheduled.clone()), &timer(app, None)).await.unwrap();
    fixture.plan(&chunk(app, 4, NOW, scheduled)).await;
    for table in ["planned_recipient", "delivery", "request", "app_user"] {
        let text = fixture.text_of(table).await;
        assert!(!text.contains("ursula") && (text.contains("bob") || table == "request"), "{table}: {text}");
    }
    assert_eq!(fixture.count("SELECT count(*) FROM request WHERE title IS NULL").await, 1);

    let after = fixture.plan(&chunk(app, 5, LATER, send_to(vec![with_email("ursula")]))).await;
    assert!(after[0].1.in_app && after[0].1.deliveries.len() == 1);
    assert!(fixture.store.directory().find_user(app, "ursula").await.unwrap().is_some());
}

#[tokio::test]
async fn planning_and_erasing_exclude_each_other() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ursula = fixture.user(app, "ursula").await;
    let chunks = [chunk(app, 1, NOW, send_to(vec![with_email("ursula")]))];
    let mut freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    let facts = freeze.write_profiles_and_read_facts().await.unwrap();
    assert!(!facts.is_erased(&chunks[0], "ursula"));
    let store = fixture.store.clone();
    let erasing = tokio::spawn(async move {
        let erasure = store.erasure().erase_user(app, "ursula", LATER).await.unwrap().unwrap();
        erasure.commit(&timer(app, None), &Actor::System).await.unwrap();
    });
    fixture.somebody_waits().await;
    freeze.commit(&facts).await.unwrap();
    erasing.await.unwrap();
    assert_eq!(fixture.store.erasure().erased_users().await.unwrap(), [(app, ursula)]);

    // In the opposite order, planning waits, and then finds the erasure.
    fixture.user(app, "bob").await;
    let erasure = fixture.store.erasure().erase_user(app, "bob", LATER).await.unwrap().unwrap();
    let chunks = [chunk(app, 2, NOW, send_to(vec![with_email("bob")]))];
    let store = fixture.store.clone();
    let planning = tokio::spawn(async move {
        let mut freeze = store.sends().freeze(&chunks).await.unwrap();
        freeze.write_profiles_and_read_facts().await.unwrap().is_erased(&chunks[0], "bob")
    });
    fixture.somebody_waits().await;
    erasure.commit(&timer(app, None), &Actor::System).await.unwrap();
    assert!(planning.await.unwrap());
}

#[tokio::test]
async fn no_provider_is_called_for_an_erased_user_and_late_answers_lose_their_text() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = send_to(vec![with_email("ursula"), with_email("bob"), with_email("cid")]);
    let decisions = fixture.plan(&chunk(app, 1, NOW, send)).await;
    let delivery = |index: usize| decisions[index].1.deliveries[0].id;
    let user = |index: usize| decisions[index].1.user.unwrap();
    let claim = async |index: usize| {
        let request = ClaimRequest { app, delivery: delivery(index), attempt: 1, provider: None };
        fixture.store.deliveries().claim(&[request], Duration::from_secs(60)).await.unwrap().remove(0)
    };
    let settlement = |index: usize, token: Uuid, outcome: Outcome, next: RecordedStep| Settlement {
        app,
        send_id: Some(send_id(1)),
        delivery: delivery(index),
        user: user(index),
        token,
        attempt: 1,
        provider: None,
        started_at: NOW,
        ended_at: NOW,
        answer: Answer::new(outcome, "450", "ursula@example.com, bob@example.com"),
        next,
        job: (StreamName::Job(Channel::Email, Lane::Transactional), Vec::new().into()),
        receipts: false,
    };
    let (Claim::Granted { token: ursulas, .. }, Claim::Granted { token: bobs, .. }) =
        (claim(0).await, claim(1).await)
    else {
        panic!("not granted")
    };
    for identifier in ["ursula", "bob", "cid"] {
        fixture.erase(app, identifier, LATER).await;
    }
    let Claim::NotDue(state) = claim(2).await else { panic!("still due") };
    assert_eq!(state.reason, Some(Reason::RecipientErased));

    let sent = Outcome::Sent { provider_id: Some("ursula@provider".to_owned()) };
    let end = RecordedStep::End(domain::Status::Sent, None);
    let again = RecordedStep::Retry(timer(app, Some(user(1))));
    let answers = [settlement(0, ursulas, sent, end), settlement(1, bobs, Outcome::GONE, again)];
    // Bob's delivery becomes `skipped` instead of being retried.
    assert_eq!(fixture.store.deliveries().settle(&answers).await.unwrap(), [true, false]);
    let states: Vec<(String, Option<String>)> =
        sqlx::query_as("SELECT status, reason FROM delivery ORDER BY recipient_index")
            .fetch_all(&fixture.pool)
            .await
            .unwrap();
    let erased = ("skipped".to_owned(), Some("recipient_erased".to_owned()));
    assert_eq!(states, [("sent".to_owned(), None), erased.clone(), erased]);
    assert_eq!(fixture.count("SELECT count(*) FROM attempt").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM suppression").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM timer WHERE user_number IS NOT NULL").await, 0);
    fixture.pass().await;
    let text = fixture.text_of("attempt").await + &fixture.text_of("delivery").await;
    assert!(!text.contains("ursula") && !text.contains("bob"), "{text}");
}

#[tokio::test]
async fn a_call_that_must_not_be_repeated_ends_as_unknown_when_its_only_job_is_removed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let decisions = fixture.plan(&chunk(app, 1, NOW, send_to(vec![with_email("ursula")]))).await;
    let (user, delivery) = (decisions[0].1.user.unwrap(), decisions[0].1.deliveries[0].id);
    let request = ClaimRequest { app, delivery, attempt: 1, provider: None };
    let claims = fixture.store.deliveries().claim(&[request], Duration::from_secs(60)).await.unwrap();
    let Claim::Granted { token, .. } = claims[0] else { panic!("{claims:?}") };
    // A worker died during its call, and another one has replaced the job with a timer.
    let over = "UPDATE delivery SET calling = true, lease_until = now()";
    sqlx::query(over).execute(&fixture.pool).await.unwrap();
    fixture.store.deliveries().set_timers(&[timer(app, Some(user))]).await.unwrap();
    fixture.erase(app, "ursula", LATER).await;
    fixture.pass().await;
    assert_eq!(fixture.count("SELECT count(*) FROM timer WHERE user_number IS NOT NULL").await, 0);
    let state = async || -> (String, Option<String>) {
        sqlx::query_as("SELECT status, reason FROM delivery").fetch_one(&fixture.pool).await.unwrap()
    };
    assert_eq!(state().await, ("unknown".to_owned(), Some("outcome_unknown".to_owned())));

    let settlement = Settlement {
        app,
        send_id: Some(send_id(1)),
        delivery,
        user,
        token,
        attempt: 1,
        provider: None,
        started_at: NOW,
        ended_at: NOW,
        answer: Answer::new(Outcome::Sent { provider_id: None }, "250", ""),
        next: RecordedStep::End(domain::Status::Sent, None),
        job: (StreamName::Job(Channel::Email, Lane::Transactional), Vec::new().into()),
        receipts: false,
    };
    assert_eq!(fixture.store.deliveries().settle(&[settlement]).await.unwrap(), [true], "a late answer");
    assert_eq!(state().await, ("sent".to_owned(), None));
}

#[tokio::test]
async fn a_pass_clears_more_rows_than_one_step() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ursula = fixture.user(app, "ursula").await;
    sqlx::query(
        "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
         SELECT $1, gen_random_uuid(), 0, 0, 'ursula', CASE WHEN n % 2 = 0 THEN $2 END, false, '{}'
         FROM generate_series(1, 5000) AS n",
    )
    .bind(app.0)
    .bind(ursula.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    fixture.erase(app, "ursula", NOW).await;
    fixture.pass().await;
    assert_eq!(fixture.count("SELECT count(*) FROM planned_recipient WHERE identifier <> ''").await, 0);
}
