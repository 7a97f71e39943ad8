//! Time from a question of support to its answer, in a large database.

use std::time::{Duration, Instant};

use domain::{Reason, SendId, Status};
use operations::explain::{self, Explained};
use operations::requests::{self, SendFilter};
use sqlx::{Connection as _, PgConnection};

use crate::{World, world};

/// Sends in the database: `TIDINGS_TEST_SENDS`, or this number.
const SENDS: i64 = 20_000;
/// User who receives one send in a thousand.
const OF_ADA: &str = "ada@example.com";

/// Fills the database with sends of the last 30 days: an inbox item that was skipped, and an email that failed or was sent.
async fn fill(world: &World, sends: i64) {
    let mut connection = PgConnection::connect(world.database.url()).await.unwrap();
    let statements = format!(
        "INSERT INTO category (app_id, identifier, name) SELECT {app}, c, c FROM unnest('{{orders,news}}'::text[]) AS c;
         INSERT INTO app_user (app_id, identifier, profile)
           SELECT {app}, CASE n WHEN 0 THEN 'ada@example.com' ELSE 'user-' || n END, '{{}}' FROM generate_series(0, 1000) AS n;
         CREATE TABLE made AS
           SELECT n, now() - (n + 1) * interval '30 days' / {sends} AS at, CASE WHEN n % 1000 = 0 THEN 0 ELSE 1 + n % 1000 END AS person
           FROM generate_series(0, {sends} - 1) AS n;
         INSERT INTO request (app_id, send_id, accepted_at, lane, title, category_id, recipients)
           SELECT {app}, (substr(send_id_at(at)::text, 1, 14) || '7' || substr(md5(n::text), 1, 3) || '-8' || substr(md5(n::text), 4, 3)
             || '-' || lpad(to_hex(n), 12, '0'))::uuid, at, 'transactional', 'Order ' || n,
             (SELECT id FROM category WHERE identifier = CASE n % 2 WHEN 0 THEN 'orders' ELSE 'news' END), 1
           FROM made;
         INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT app_id, send_id, 0, accepted_at FROM request;
         INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
           SELECT r.app_id, r.send_id, 0, 0, u.identifier, u.number, false, '{{inApp:preference_off,sms:no_provider}}'
           FROM request r JOIN made ON made.n = ('x' || right(r.send_id::text, 12))::bit(48)::bigint
           JOIN app_user u ON u.identifier = CASE made.person WHEN 0 THEN 'ada@example.com' ELSE 'user-' || made.person END;
         INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, provider, settled_at)
           SELECT app_id, gen_random_uuid(), send_id, 0, user_number, 'email', identifier,
             CASE WHEN identifier = 'ada@example.com' THEN 'failed' ELSE 'sent' END,
             CASE WHEN identifier = 'ada@example.com' THEN 'target_gone' END, 'main', now()
           FROM planned_recipient;
         INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message)
           SELECT app_id, id, 1, now(), now(), 'main', CASE status WHEN 'sent' THEN 'sent' ELSE 'target_gone' END,
             CASE status WHEN 'sent' THEN '250' ELSE '550 5.1.1' END, 'no such user' FROM delivery;
         DROP TABLE made;",
        app = world.shop.0
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut connection).await.unwrap();
    sqlx::raw_sql("ANALYZE").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns the sends of the list `tidings explain shop ada@example.com --category orders`, and the causes that it names.
async fn ask(world: &World) -> Vec<(SendId, String)> {
    let filter = SendFilter { category: Some("orders"), ..SendFilter::default() };
    let asked = explain::latest(&world.operations, &world.admin, world.shop, OF_ADA, filter, 10, false);
    let Explained::Found(found) = asked.await.unwrap() else { panic!("no such user") };
    found.sends.into_iter().map(|explained| (explained.send.send_id, explained.verdict)).collect()
}

/// Support knows an address, "the order mail" and "yesterday".
#[tokio::test]
async fn two_calls_lead_from_an_address_to_the_cause() {
    let world = world().await;
    let sends = std::env::var("TIDINGS_TEST_SENDS").map_or(SENDS, |sends| sends.parse().unwrap());
    fill(&world, sends).await;
    let (mut listing, mut explaining) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let began = Instant::now();
        let found = ask(&world).await;
        listing = listing.min(began.elapsed());
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|(_, verdict)| verdict.contains("550 5.1.1 no such user")), "{found:?}");

        let began = Instant::now();
        let (app, send) = (world.shop, found[0].0);
        let told = explain::request(&world.operations, &world.admin, app, OF_ADA, send, true);
        let Explained::Found(told) = told.await.unwrap() else { panic!("no such user") };
        explaining = explaining.min(began.elapsed());
        let channels = told.story.unwrap().channels;
        let email = channels.iter().find(|channel| channel.status == Status::Failed).unwrap();
        assert_eq!(email.reason, Some(Reason::TargetGone));
    }
    println!("{sends} sends: the list with verdicts {listing:?}, the story of one send {explaining:?}");
}

#[tokio::test]
async fn a_page_of_sends_continues_where_a_bounded_search_ended() {
    let world = world().await;
    fill(&world, 3_000).await;
    let (operations, caller, app) = (&world.operations, &world.admin, world.shop);
    let list =
        async |filter: SendFilter<'_>| requests::list(operations, caller, app, filter, 5).await.unwrap();
    let never = SendFilter { category: Some("never"), ..SendFilter::default() };
    let first = list(never).await;
    assert!(first.sends.is_empty() && first.next.is_some(), "2,000 sends are examined");
    let second = list(SendFilter { before: first.next, ..never }).await;
    assert!(second.sends.is_empty() && second.next.is_none());

    let failed = SendFilter { status: Some(Status::Failed), ..SendFilter::default() };
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = list(SendFilter { before, ..failed }).await;
        found.extend(page.sends.into_iter().map(|send| send.send_id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let of_ada = list(SendFilter { recipient: Some(OF_ADA), ..failed }).await;
    assert_eq!(found, of_ada.sends.iter().map(|send| send.send_id).collect::<Vec<_>>());
    assert_eq!(found.len(), 3);
}
