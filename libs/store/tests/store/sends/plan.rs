//! Freezing chunks.

use std::sync::Arc;

use domain::content::Object;
use domain::plan::{self, Person, SendFacts, SuppressedTargets};
use domain::send::{CHUNK_RECIPIENTS, Recipient, TemplateRef};
use domain::{Actor, AppId, Channel, Reason, SendRequest, Status};
use serde_json::json;
use store::Store;
use store::control::template::NewTemplate;
use store::sends::chunk::Chunk;
use store::sends::facts::Facts;
use store::sends::plan::{Freeze, RenderFailure};
use store::sends::planned_chunk::{Decisions, PlannedChunk};

use crate::{Fixture, NOW, RandomNumbers, fixture, recipient, send_id, send_to};

/// Maximum number of tries. PostgreSQL aborts the same transaction only a few times in a row, even if many run concurrently.
const MOST_TRIES: usize = 20;

pub(crate) fn chunk(app: AppId, number: u128, chunk: u32, send: &SendRequest) -> Chunk {
    Chunk::listed(app, send_id(number), chunk, NOW, Arc::new(send.clone()))
}

fn with_profile(identifier: &str, profile: &serde_json::Value) -> Recipient {
    Recipient { profile: profile.as_object().cloned(), ..recipient(identifier) }
}

/// Makes decisions like the dispatcher, for sends that have content for every channel.
fn decide(planned: &PlannedChunk, facts: &Facts) -> Decisions {
    let PlannedChunk { chunk, category, .. } = planned;
    let send = SendFacts {
        ids: facts.delivery_ids(chunk),
        send_id: chunk.send_id,
        selected: None,
        content: &Channel::DELIVERED,
        providers: facts.provider_channels(chunk.app),
        push_kinds: &[],
    };
    let nothing = SuppressedTargets::new();
    let suppressed = facts.suppressed(chunk.app).unwrap_or(&nothing);
    let first = chunk.chunk * u32::try_from(CHUNK_RECIPIENTS).unwrap();
    (first..)
        .zip(chunk.recipients())
        .map(|(position, recipient)| {
            let person = facts.user(chunk.app, &recipient.identifier).map(|(number, profile)| Person {
                number,
                profile,
                topic_channels: None,
                turned_off: category.as_ref().map_or(&[], |of| facts.turned_off(chunk.app, of.id, number)),
                endpoints: facts.endpoints(chunk.app, number),
            });
            (position, plan::decide_recipient(&send, recipient, person, suppressed))
        })
        .collect()
}

/// Makes the decisions of the new chunks, reads the stored decisions of the others, and commits.
async fn finish(mut freeze: Freeze) -> Result<(Facts, Vec<PlannedChunk>), store::Error> {
    let facts = freeze.write_profiles_and_read_facts().await?;
    freeze.read_stored_decisions().await?;
    for planned in freeze.chunks.iter_mut().filter(|planned| planned.is_new) {
        planned.decisions = decide(planned, &facts);
    }
    freeze.commit(&facts).await.map(|planned| (facts, planned))
}

async fn decided(freeze: Freeze) -> Vec<Decisions> {
    finish(freeze).await.unwrap().1.into_iter().map(|planned| planned.decisions).collect()
}

async fn frozen_chunks(store: &Store, chunks: &[Chunk]) -> (Facts, Vec<PlannedChunk>) {
    finish(store.sends().freeze(chunks).await.unwrap()).await.unwrap()
}

pub(crate) async fn frozen(store: &Store, chunks: &[Chunk]) -> (Facts, Vec<Decisions>) {
    let (facts, planned) = frozen_chunks(store, chunks).await;
    (facts, planned.into_iter().map(|planned| planned.decisions).collect())
}

/// Freezes chunks. If PostgreSQL aborts the transaction because of a concurrent one, tries again, as a dispatcher does.
async fn frozen_with_retries(store: &Store, chunks: &[Chunk]) {
    for _ in 0..MOST_TRIES {
        let frozen = async { finish(store.sends().freeze(chunks).await?).await };
        let Err(error) = frozen.await else { return };
        assert!(!error.is_refused_data(), "{error}");
    }
    panic!("the chunks were not frozen in {MOST_TRIES} tries");
}

impl Fixture {
    async fn email_provider(&self, app: AppId, enabled: bool) {
        sqlx::query(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             VALUES ($1, gen_random_uuid(), 'email', 'smtp', 1, $2, '{}')",
        )
        .bind(app.0)
        .bind(enabled)
        .execute(&self.pool)
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_chunk_is_frozen_once_and_read_back_as_decided() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.email_provider(app, true).await;
    let send = send_to(vec![
        with_profile("ada", &json!({"email": "ada@example.com"})),
        recipient("eve"),
        with_profile("bob", &json!({"fcm": {"token": "x"}})),
    ]);
    let chunks = [chunk(app, 1, 0, &send)];
    let freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    assert!(freeze.chunks[0].is_new);
    let first = decided(freeze).await;
    assert!(first[0][0].1.in_app && first[0][0].1.deliveries.len() == 1);
    assert_eq!(first[0][1].1.user, None);

    // Later changes do not affect the frozen decisions.
    fixture.store.directory().merge_user(app, "eve", Object::new()).await.unwrap();
    let freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    assert!(!freeze.chunks[0].is_new);
    assert_eq!(decided(freeze).await, first);
    assert_eq!(fixture.count("SELECT count(*) FROM plan").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM planned_recipient").await, 3);
    assert_eq!(fixture.count("SELECT count(*) FROM delivery").await, 1);
    let request = "SELECT count(*) FROM request WHERE title = 'Title' AND recipients = 3 AND body IS NULL";
    assert_eq!(fixture.count(request).await, 1);
}

#[tokio::test]
async fn a_concurrent_freeze_waits_and_reads_the_first_decisions() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunks = [chunk(app, 1, 0, &send_to(vec![with_profile("ada", &json!({}))]))];
    let first = fixture.store.sends().freeze(&chunks).await.unwrap();
    let (store, same) = (fixture.store.clone(), chunks.clone());
    let second = tokio::spawn(async move {
        let freeze = store.sends().freeze(&same).await.unwrap();
        (freeze.chunks[0].is_new, decided(freeze).await)
    });
    fixture.somebody_waits().await;
    assert_eq!((false, decided(first).await), second.await.unwrap());
    assert_eq!(fixture.count("SELECT count(*) FROM plan").await, 1);
}

#[tokio::test]
async fn a_duplicate_chunk_in_a_batch_is_decided_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let one = chunk(app, 1, 0, &send_to(vec![with_profile("ada", &json!({}))]));
    let chunks = [one.clone(), one];
    let freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    assert!(freeze.chunks[0].is_new && !freeze.chunks[1].is_new);
    let decisions = decided(freeze).await;
    assert!(decisions[0][0].1.in_app && decisions[1].is_empty());
    assert_eq!(fixture.count("SELECT count(*) FROM planned_recipient").await, 1);
}

#[tokio::test]
async fn nothing_is_written_before_the_commit() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut send = send_to(vec![with_profile("ada", &json!({}))]);
    send.category = Some("orders".to_owned());
    let chunks = [chunk(app, 1, 0, &send)];
    let mut freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    freeze.write_profiles_and_read_facts().await.unwrap();
    drop(freeze);
    let everything = "SELECT (SELECT count(*) FROM plan) + (SELECT count(*) FROM app_user)
        + (SELECT count(*) FROM category) + (SELECT count(*) FROM request)";
    assert_eq!(fixture.count(everything).await, 0);
    assert!(fixture.store.sends().freeze(&chunks).await.unwrap().chunks[0].is_new, "it can be frozen again");
}

#[tokio::test]
async fn inline_profiles_are_merged_only_when_a_chunk_is_new() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunks =
        [chunk(app, 1, 0, &send_to(vec![with_profile("ada", &json!({"plan": "free", "city": "Rome"}))]))];
    frozen(&fixture.store, &chunks).await;
    let later = json!({"plan": "paid"});
    fixture.store.directory().merge_user(app, "ada", later.as_object().cloned().unwrap()).await.unwrap();
    let (facts, _) = frozen(&fixture.store, &chunks).await;
    let (_, profile) = facts.user(app, "ada").unwrap();
    assert_eq!(json!(profile), json!({"plan": "paid", "city": "Rome"}));
}

#[tokio::test]
async fn a_missing_category_is_created_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut send = send_to(vec![recipient("ada")]);
    send.category = Some("orders".to_owned());
    let (one, other) = ([chunk(app, 1, 0, &send)], [chunk(app, 2, 0, &send), chunk(app, 3, 0, &send)]);
    let mut first = fixture.store.sends().freeze(&one).await.unwrap();
    let facts = first.write_profiles_and_read_facts().await.unwrap();
    let store = fixture.store.clone();
    let second = tokio::spawn(async move { frozen_chunks(&store, &other).await.1.remove(1).category });
    fixture.somebody_waits().await;
    let planned = first.commit(&facts).await.unwrap();
    assert_eq!(second.await.unwrap().unwrap().id, planned[0].category.as_ref().unwrap().id);
    assert_eq!(fixture.count("SELECT count(*) FROM category").await, 1);
    assert_eq!(fixture.count("SELECT count(DISTINCT category_id) FROM request").await, 1);
}

#[tokio::test]
async fn every_chunk_keeps_the_template_version_of_the_first() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let put = async |title: &str| {
        let channels = json!({"inApp": {"title": title}});
        let template = NewTemplate {
            identifier: "welcome",
            name: "Welcome",
            category: Some("news"),
            channels: &channels,
            mjml: None,
        };
        fixture.store.control().put_template(app, template, &Actor::System).await.unwrap()
    };
    let version = async |chunk: Chunk| {
        let planned = frozen_chunks(&fixture.store, &[chunk]).await.1.remove(0);
        assert_eq!(planned.category.unwrap().identifier, "news");
        planned.template.unwrap().version
    };
    let (id, first) = put("one").await;
    let mut send = send_to((0..600).map(|number| recipient(&number.to_string())).collect());
    send.template = Some(TemplateRef::Identifier("welcome".to_owned()));
    assert_eq!(version(chunk(app, 1, 0, &send)).await, first);
    assert_eq!(fixture.count("SELECT count(*) FROM request WHERE body IS NOT NULL").await, 1);
    let (_, second) = put("two").await;
    assert_eq!(version(chunk(app, 1, 1, &send)).await, first);
    assert_eq!(version(chunk(app, 1, 0, &send)).await, first, "the same chunk again");
    send.template = Some(TemplateRef::Id(id));
    assert_eq!(version(chunk(app, 2, 0, &send)).await, second, "another send");
    let other = fixture.app("bank").await;
    let (_, planned) = frozen_chunks(&fixture.store, &[chunk(other, 3, 0, &send)]).await;
    assert!(planned[0].template.is_none(), "wrong app");
}

#[tokio::test]
async fn decisions_depend_on_preferences_suppressions_providers_and_users() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    fixture.email_provider(app, true).await;
    fixture.email_provider(other, false).await;
    let mut send = send_to(vec![
        with_profile("off@example.com", &json!({})),
        with_profile("dead@example.com", &json!({})),
        with_profile("ada@example.com", &json!({})),
        recipient("eve@example.com"),
    ]);
    send.category = Some("orders".to_owned());
    frozen(&fixture.store, &[chunk(app, 1, 0, &send)]).await;
    for statement in [
        "INSERT INTO preference (app_id, user_number, category_id, channel, enabled)
         SELECT u.app_id, u.number, c.id, channel, channel = 'sms' FROM app_user u JOIN category c USING (app_id),
           unnest('{inApp,email,sms}'::text[]) AS channel WHERE u.identifier = 'off@example.com'",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT id, 'email', 'dead@example.com', gen_random_uuid(), '550' FROM app WHERE name = 'shop'",
    ] {
        sqlx::query(statement).execute(&fixture.pool).await.unwrap();
    }
    let (facts, decisions) =
        frozen(&fixture.store, &[chunk(app, 2, 0, &send), chunk(other, 2, 0, &send)]).await;
    assert_eq!((facts.app_name(app), facts.app_name(other)), ("shop", "bank"));
    let emails: Vec<_> = decisions[0]
        .iter()
        .map(|(_, decision)| decision.skips.iter().find(|(channel, _)| *channel == Channel::Email))
        .map(|skip| skip.map(|(_, reason)| *reason))
        .collect();
    let expected =
        [Some(Reason::PreferenceOff), Some(Reason::Suppressed), None, Some(Reason::RecipientUnknown)];
    assert_eq!(emails, expected);
    let in_app: Vec<_> = decisions[0].iter().map(|(_, decision)| decision.in_app).collect();
    assert_eq!(in_app, [false, true, true, false]);
    for (_, decision) in &decisions[1][..3] {
        assert!(decision.in_app && decision.skips.contains(&(Channel::Email, Reason::NoProvider)));
    }

    sqlx::query("UPDATE category SET critical = true").execute(&fixture.pool).await.unwrap();
    let (_, decisions) = frozen(&fixture.store, &[chunk(app, 3, 0, &send)]).await;
    assert!(decisions[0][0].1.in_app && decisions[0][0].1.deliveries.len() == 1, "preferences are ignored");
}

#[tokio::test]
async fn render_failures_are_recorded() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.email_provider(app, true).await;
    let people = ["ada@example.com", "bob@example.com"].map(|name| with_profile(name, &json!({})));
    let chunks = [chunk(app, 1, 0, &send_to(people.to_vec()))];
    frozen(&fixture.store, &chunks).await;
    let failure = |channel| RenderFailure { app, send_id: send_id(1), recipient_index: 1, channel };
    let failures = [failure(Channel::InApp), failure(Channel::Email)];
    for _ in 0..2 {
        let ended = fixture.store.sends().record_render_failures(&failures).await.unwrap();
        let [ended] = ended.as_slice() else { panic!("{ended:?}") };
        let how = (ended.status, ended.reason, ended.attempt);
        assert_eq!(how, (Status::Failed, Some(Reason::TemplateError), 1));
    }
    assert!(fixture.store.sends().record_render_failures(&[]).await.unwrap().is_empty());
    let (_, stored) = frozen(&fixture.store, &chunks).await;
    assert!(stored[0][0].1.in_app && stored[0][0].1.deliveries.len() == 1);
    let failed = &stored[0][1].1;
    assert!(!failed.in_app && failed.deliveries.len() == 1, "the outcome may still be unpublished");
    let recorded = failed.skips.iter().filter(|skip| **skip == (Channel::InApp, Reason::TemplateError));
    assert_eq!(recorded.count(), 1);
    let ended = "SELECT count(*) FROM delivery WHERE recipient_index = 1 AND status = 'failed'
                 AND reason = 'template_error' AND settled_at IS NOT NULL";
    assert_eq!(fixture.count(ended).await, 1);
}

#[tokio::test]
async fn render_failures_return_only_deliveries_without_a_worker() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.email_provider(app, true).await;
    let people = ["a@example.com", "b@example.com", "c@example.com", "d@example.com"]
        .map(|name| with_profile(name, &json!({})));
    frozen(&fixture.store, &[chunk(app, 1, 0, &send_to(people.to_vec()))]).await;
    for statement in [
        "UPDATE delivery SET status = 'cancelled', reason = 'request_cancelled' WHERE recipient_index = 0",
        "UPDATE delivery SET status = 'sent' WHERE recipient_index = 1",
        "UPDATE delivery SET status = 'cancelled', attempt = 2 WHERE recipient_index = 2",
        "UPDATE delivery SET status = 'failed', reason = 'provider_refused' WHERE recipient_index = 3",
    ] {
        sqlx::query(statement).execute(&fixture.pool).await.unwrap();
    }
    let failures = [0, 1, 2, 3].map(|recipient_index| RenderFailure {
        app,
        send_id: send_id(1),
        recipient_index,
        channel: Channel::Email,
    });
    let ended = fixture.store.sends().record_render_failures(&failures).await.unwrap();
    let [ended] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(Reason::RequestCancelled)));
}

#[tokio::test]
async fn deliveries_in_progress_are_not_ordered_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.email_provider(app, true).await;
    let people =
        ["a@example.com", "b@example.com", "c@example.com"].map(|name| with_profile(name, &json!({})));
    let chunks = [chunk(app, 1, 0, &send_to(people.to_vec()))];
    frozen(&fixture.store, &chunks).await;
    for statement in [
        "UPDATE delivery SET status = 'sending' WHERE recipient_index = 0",
        "UPDATE delivery SET status = 'retrying', attempt = 2 WHERE recipient_index = 1",
    ] {
        sqlx::query(statement).execute(&fixture.pool).await.unwrap();
    }
    let (_, stored) = frozen(&fixture.store, &chunks).await;
    let waiting: Vec<_> = stored[0].iter().map(|(_, decision)| decision.deliveries.len()).collect();
    assert_eq!(waiting, [0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_batches_freeze_each_chunk_once() {
    let fixture = fixture().await;
    let apps = [fixture.app("shop").await, fixture.app("bank").await];
    let mut random = RandomNumbers(7);
    for round in 0..6 {
        // Neighbouring batches share a send. All batches share users and categories, and each round adds new users and
        // categories.
        let batches: Vec<Vec<Chunk>> = (0..8)
            .map(|batch| {
                let numbers = [batch, (batch + 1) % 8, 8 + batch, 16 + batch];
                let chunks = numbers.map(|number| {
                    let names = random.shuffled((round * 3..round * 3 + 8).collect());
                    let person = |name| with_profile(&format!("u{name}"), &json!({"round": round}));
                    let mut send = send_to(names.into_iter().map(person).collect());
                    send.category = Some(format!("c{}", round + random.below(4)));
                    let app = apps[usize::try_from(number % 2).unwrap()];
                    chunk(app, u128::from(round * 100 + number), 0, &send)
                });
                random.shuffled(chunks.to_vec())
            })
            .collect();
        let freezing: Vec<_> = batches
            .into_iter()
            .map(|chunks| {
                let store = fixture.store.clone();
                tokio::spawn(async move { frozen_with_retries(&store, &chunks).await })
            })
            .collect();
        for frozen in freezing {
            frozen.await.unwrap();
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM plan").await, 6 * 24);
    assert_eq!(fixture.count("SELECT count(*) FROM planned_recipient").await, 6 * 24 * 8);
}
