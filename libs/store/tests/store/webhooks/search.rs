//! Claims of webhooks from the positions of earlier searches, while an open transaction keeps all messages that were sent.

use std::collections::BTreeSet;

use domain::AppId;
use sqlx::{AssertSqlSafe, Executor};
use store::webhooks::{AttemptResult, Depths, DueMessage, Search};

use super::webhook::PACE;
use crate::pinned::blocks;
use crate::{Fixture, fixture, source};

/// Messages that are added, claimed and settled, in steps.
const SENT: i64 = 8_000;
const STEP: i64 = 400;
/// Maximum number of blocks that a claim reads if no message is due.
const BLOCKS: i64 = 60;
/// Settings of the transaction that claims.
const CLAIMING: &str = "SET enable_bitmapscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_does_not_read_messages_that_were_sent_while_a_transaction_is_open() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let mut reader = fixture.pin().await;
    let send = format!(
        "UPDATE webhook_message SET token = gen_random_uuid(), next_at = now() + interval '60 s' WHERE head;
         UPDATE webhook_message SET token = NULL, status = 'delivered', settled_at = now() WHERE token IS NOT NULL;
         DELETE FROM webhook_wake WHERE app_id = {}",
        app.0
    );
    for first in (1..=SENT).step_by(STEP.cast_unsigned().try_into().unwrap()) {
        fixture.messages(app, endpoint, first..=first + STEP - 1, SENT).await;
        fixture.set_up(&send).await;
    }
    let mut session = fixture.session().await;
    session.execute(CLAIMING).await.unwrap();
    let statements = source::statements();
    for (name, part) in
        [("claim", "Claims due messages of the apps $6"), ("wakes", "DELETE FROM webhook_wake")]
    {
        let statement = statements.iter().find(|statement| statement.sql.contains(part)).unwrap();
        session.execute(AssertSqlSafe(format!("PREPARE {name} AS {}", statement.sql))).await.unwrap();
    }
    let claim = |due_from: &str, claimed_from: &str| {
        let (app, endpoint) = (app.0, endpoint);
        format!(
            "100, 8, 3, 60, 16, '{{{app}}}', 8, '{{{app}}}', '{{{endpoint}}}', '{{1}}', 16,
             ARRAY[{due_from}]::timestamptz[], ARRAY[{claimed_from}]::timestamptz[]"
        )
    };
    for mode in ["force_generic_plan", "force_custom_plan"] {
        session.execute(AssertSqlSafe(format!("SET plan_cache_mode = {mode}"))).await.unwrap();
        let (_, of_all) = blocks(&mut session, "claim", &claim("NULL", "NULL")).await;
        assert!(of_all > 5 * BLOCKS, "a search over everything reads only {of_all} blocks");
        let arguments = claim("now()", "now() + interval '60 s'");
        let (_, from_position) = blocks(&mut session, "claim", &arguments).await;
        assert!(from_position <= BLOCKS, "{mode}: {from_position} blocks");
        let (_, of_wakes) = blocks(&mut session, "wakes", "64, now(), '{}', '{}'").await;
        assert!(of_wakes <= BLOCKS, "{mode}: {of_wakes} blocks");
    }
    reader.execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn searches_from_positions_find_every_message_and_respect_the_limits() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let (mut search, mut other) = (Search::default(), Search::default());
    let webhooks = fixture.store.webhooks();
    // Ten messages of each of twelve subjects: whenever one is settled, the next of its subject becomes due.
    fixture.messages(app, endpoint, 1..=120, 12).await;
    fixture.set_up("UPDATE webhook_message SET next_at = next_at - number * interval '1 s' WHERE head").await;
    let mut delivered = BTreeSet::new();
    while delivered.len() < 120 {
        let own = webhooks.take_webhooks_from(5, PACE, &Depths::new(), &mut search).await.unwrap().concat();
        let of_other =
            webhooks.take_webhooks_from(8, PACE, &Depths::new(), &mut other).await.unwrap().concat();
        let running = own.len() + of_other.len();
        assert!((1..=8).contains(&running), "{running} calls after {} messages", delivered.len());
        let more = webhooks.take_webhooks_from(8, PACE, &Depths::new(), &mut search).await.unwrap().concat();
        assert!(running + more.len() <= 8, "{running} calls, and {} more", more.len());
        for message in own.iter().chain(&of_other).chain(&more) {
            assert!(delivered.insert(message.id), "a message is claimed once");
        }
        for message in own.iter().chain(&more) {
            search.note_ended((message.app, message.endpoint), message.token);
        }
        for message in &of_other {
            other.note_ended((message.app, message.endpoint), message.token);
        }
        fixture.end(&[own, of_other, more].concat(), AttemptResult::Accepted).await;
    }
    let left = webhooks.take_webhooks_from(8, PACE, &Depths::new(), &mut search).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

async fn claim(fixture: &Fixture, search: &mut Search) -> Vec<DueMessage> {
    fixture.store.webhooks().take_webhooks_from(8, PACE, &Depths::new(), search).await.unwrap().concat()
}

/// Makes the next look that is due.
async fn look(fixture: &Fixture, search: &mut Search) {
    let mut look = search.look().unwrap();
    fixture.store.webhooks().look_behind(&mut look).await.unwrap();
    search.note_look(&look);
}

#[tokio::test]
async fn messages_that_another_process_returned_are_found_by_a_look_behind_the_position() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let mut search = Search::default();
    fixture.messages(app, endpoint, 1..=4, 100).await;
    fixture.set_up("UPDATE webhook_message SET next_at = next_at - interval '1 hour'").await;
    let returned = fixture.take(4, &Depths::new()).await.concat();
    fixture.messages(app, endpoint, 5..=8, 100).await;
    let newer = claim(&fixture, &mut search).await;
    fixture.end(&newer, AttemptResult::Accepted).await;
    fixture.end(&returned, AttemptResult::NotSent).await;
    assert_eq!((returned.len(), newer.len()), (4, 4));
    assert!(claim(&fixture, &mut search).await.is_empty(), "they are before the position");
    look(&fixture, &mut search).await;
    assert!(claim(&fixture, &mut search).await.is_empty(), "they were due more than twenty seconds ago");
    look(&fixture, &mut search).await;
    assert_eq!(claim(&fixture, &mut search).await.len(), 4);
}

/// Sends the first message of a new endpoint. Returns the positions of the process that sent it.
async fn send_one(fixture: &Fixture) -> (AppId, i64, Search) {
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let mut search = Search::default();
    fixture.messages(app, endpoint, 1..=1, 100).await;
    let first = claim(fixture, &mut search).await;
    fixture.end(&first, AttemptResult::Accepted).await;
    (app, endpoint, search)
}

#[tokio::test]
async fn messages_whose_transaction_took_long_are_found_by_a_recent_look() {
    let fixture = fixture().await;
    let (app, endpoint, mut search) = send_one(&fixture).await;
    fixture.messages(app, endpoint, 2..=4, 100).await;
    fixture.set_up("UPDATE webhook_message SET next_at = next_at - interval '5 s' WHERE head").await;
    assert!(claim(&fixture, &mut search).await.is_empty(), "they are before the position");
    look(&fixture, &mut search).await;
    assert_eq!(claim(&fixture, &mut search).await.len(), 3);
}

#[tokio::test]
async fn a_look_finds_running_calls_whose_claims_end_earlier_than_all_that_are_known() {
    let fixture = fixture().await;
    let (app, endpoint, mut search) = send_one(&fixture).await;
    fixture.messages(app, endpoint, 2..=20, 100).await;
    // A claim of another process that was committed late.
    let run = "UPDATE webhook_message SET token = gen_random_uuid(), next_at = now() + interval '10 s'
               WHERE head AND number <= (SELECT min(number) + 6 FROM webhook_message WHERE head)";
    fixture.set_up(run).await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_message WHERE token IS NOT NULL").await, 7);
    look(&fixture, &mut search).await;
    assert_eq!(claim(&fixture, &mut search).await.len(), 1, "an endpoint gets eight calls at a time");
}

#[tokio::test]
async fn messages_that_a_slot_of_the_process_returned_are_found_by_its_next_search() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let (mut search, depths) = (Search::default(), Depths::from([((app, endpoint), 4)]));
    let webhooks = fixture.store.webhooks();
    fixture.messages(app, endpoint, 1..=4, 100).await;
    fixture.set_up("UPDATE webhook_message SET next_at = next_at - interval '1 hour'").await;
    let returned = webhooks.take_webhooks_from(1, PACE, &depths, &mut search).await.unwrap().concat();
    // The position is now behind the four messages.
    fixture.messages(app, endpoint, 5..=8, 100).await;
    let newer = webhooks.take_webhooks_from(1, PACE, &depths, &mut search).await.unwrap().concat();
    assert_eq!((returned.len(), newer.len()), (4, 4));
    fixture.end(&returned, AttemptResult::NotSent).await;
    let found = webhooks.take_webhooks_from(1, PACE, &depths, &mut search).await.unwrap().concat();
    let ids = |messages: &[DueMessage]| messages.iter().map(|message| message.id).collect::<Vec<_>>();
    assert_eq!(ids(&found), ids(&returned));
}

/// Another process holds the apps of the first wakes. The wakes of other apps behind them are not skipped.
#[tokio::test]
async fn wakes_behind_those_of_apps_in_other_hands_are_found() {
    let fixture = fixture().await;
    let [first, second, free] =
        [fixture.app("first").await, fixture.app("second").await, fixture.app("free").await];
    for app in [first, second, free] {
        let endpoint = fixture.endpoint(app).await;
        fixture.messages(app, endpoint, 1..=4, 100).await;
    }
    let wakes = format!(
        "DELETE FROM webhook_wake;
         INSERT INTO webhook_wake (app_id, at)
         SELECT {first}, now() - interval '3 hours' FROM generate_series(1, 2)
         UNION ALL SELECT {second}, now() - interval '2 hours' FROM generate_series(1, 2)
         UNION ALL SELECT {free}, now() - interval '1 minute'"
    );
    fixture.set_up(&wakes).await;
    let mut other = fixture.session().await;
    let lock = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('webhooks', app)) FROM (VALUES ({first}), ({second})) AS held (app)"
    );
    other.execute(AssertSqlSafe(lock)).await.unwrap();
    let (mut search, webhooks) = (Search::default(), fixture.store.webhooks());
    // One call slot looks at two wakes.
    let mut apps = Vec::new();
    for _ in 0..3 {
        let claimed = webhooks.take_webhooks_from(1, PACE, &Depths::new(), &mut search).await.unwrap();
        apps.extend(claimed.concat().into_iter().map(|message| message.app));
    }
    assert_eq!(apps, [free]);
    other.execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn the_next_message_of_a_subject_is_due_when_it_becomes_the_head() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    fixture.messages(app, endpoint, 1..=3, 1).await;
    fixture.set_up("UPDATE webhook_message SET next_at = next_at - interval '1 hour'").await;
    let is_recent =
        "SELECT count(*) FROM webhook_message WHERE head AND next_at > now() - interval '1 minute'";
    let taken = fixture.take(1, &Depths::new()).await.concat();
    fixture.end(&taken, AttemptResult::Accepted).await;
    assert_eq!(fixture.count(is_recent).await, 1);
    fixture.set_up("UPDATE webhook_message SET next_at = next_at - interval '1 hour' WHERE head").await;
    fixture.set_up("DELETE FROM webhook_message WHERE head").await;
    assert_eq!(fixture.count(is_recent).await, 1);
}
