//! `tidings explain`, `tidings sends`, `tidings waiting`, `tidings refused` and `tidings processes`.

use local_servers::NatsServer;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::installation::Installation;

const REQUEST: &str = "018f0000-0000-7000-8000-000000000001";

/// Stores a send to Ada: her inbox has the item, and her email waits for the provider `main`.
const ONE_SEND: &str = "
    INSERT INTO category (app_id, identifier, name) SELECT id, 'orders', 'Orders' FROM app;
    INSERT INTO app_user (app_id, identifier, profile) SELECT id, 'ada', '{\"name\": \"Ada\"}' FROM app;
    INSERT INTO request (app_id, send_id, accepted_at, lane, title, category_id, recipients)
      SELECT app_id, '018f0000-0000-7000-8000-000000000001', '2026-11-29T10:02:03.120Z', 'transactional', 'Order 7 shipped', id, 1
      FROM category;
    INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT app_id, send_id, 0, '2026-11-29T10:02:03.128Z' FROM request;
    INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
      SELECT r.app_id, send_id, 0, 0, 'ada', number, true, '{sms:preference_off,webPush:no_address}'
      FROM request r JOIN app_user u ON u.app_id = r.app_id;
    INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, seen_at, clicked_at, content, event_id)
      SELECT app_id, user_number, 1, send_id, '2026-11-29T10:02:03.130Z', '2026-11-29T10:03:00Z', '2026-11-29T10:04:12Z', '{}',
        gen_random_uuid()
      FROM planned_recipient;
    INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
      SELECT app_id, '00000000-0000-0000-0000-000000000007', send_id, 0, user_number, 'email', 'ada@example.com'
      FROM planned_recipient;
    INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number, delivery_id, wait_reason, provider, code)
      SELECT gen_random_uuid(), '2026-11-29T10:07:00Z', 'JOB_email_transactional', '', app_id, send_id, user_number, id,
        'breaker_open', 'main', '535 5.7.8'
      FROM delivery";

async fn with_one_send() -> Installation {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let pool = PgPool::connect(installation.database_url()).await.unwrap();
    sqlx::raw_sql(ONE_SEND).execute(&pool).await.unwrap();
    pool.close().await;
    installation
}

#[tokio::test]
async fn explain_prints_the_verdict_each_channel_and_what_happened() {
    let installation = with_one_send().await;
    let page = installation.run(&["explain", "shop", "ada", REQUEST]);
    assert_eq!(page.code, 0, "{}", page.errors);
    for part in [
        "Order 7 shipped → Ada (ada)\n",
        "request 018f0000-0000-7000-8000-000000000001   orders\n",
        "  in-app     ✓ delivered   Ada has the inbox item. Ada read it at 10:04:12 UTC.\n",
        "  email      … waiting     The email waits: main keeps failing, and Tidings calls it again later.\n",
        "                           Its last answer was \"535 5.7.8\". Next attempt: 10:07:00 UTC.\n",
        "  sms        ⊘ skipped     No text message: Ada turned this channel off for the category.\n",
        "  10:02:03.128  planned    inApp yes, email yes, webPush no_address, sms preference_off  (waited 8 ms)\n",
        "If the same were sent now: inApp yes · email no, no provider",
    ] {
        assert!(page.output.contains(part), "{part}\n{}", page.output);
    }
    assert!(!page.output.contains('\x1b') && !page.output.contains("ada@example.com"), "{}", page.output);
    let told = installation.run(&["explain", "shop", "ada", REQUEST, "--json"]).json();
    assert_eq!(told["channels"][1]["reason"], "breaker_open");
    assert_eq!(
        told["events"][0],
        json!({
            "at": "2026-11-29T10:02:03.120Z", "kind": "accepted", "channel": null, "text": "the API accepted the send",
            "waitedMs": null, "tookMs": null,
        })
    );
}

#[tokio::test]
async fn without_a_request_the_latest_sends_are_listed_with_verdicts() {
    let installation = with_one_send().await;
    let list = installation.run(&["explain", "shop", "ada", "--category", "orders"]);
    assert!(
        list.output.starts_with("2026-11-29 10:02:03  Order 7 shipped  orders\n  Ada has the inbox item."),
        "{}",
        list.output
    );
    assert!(list.output.contains(&format!("tidings explain shop ada {REQUEST}")), "{}", list.output);
    let none = installation.run(&["explain", "shop", "ada", "--category", "news"]);
    assert_eq!(none.output, "No send to Ada matches.\n");
    let now = installation.run(&["explain", "shop", "ada", "--category", "orders", "--now"]);
    assert!(now.output.starts_with("A send of orders now: inApp yes"), "{}", now.output);
    let unknown = installation.run(&["explain", "shop", "adda"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.errors.contains("no user \"adda\"; similar identifiers: ada"), "{}", unknown.errors);
    assert_eq!(installation.run(&["explain", "shop", "ada", "not-an-id"]).code, 2);
}

#[tokio::test]
async fn sends_and_waiting_deliveries_are_listed() {
    let installation = with_one_send().await;
    for (arguments, is_found) in [
        (&["sends", "shop"][..], true),
        (&["sends", "shop", "--recipient", "ada", "--status", "waiting"], true),
        (&["sends", "shop", "--recipient", "ada", "--status", "failed"], false),
        (&["sends", "shop", "--since", "2126-01-01T00:00:00Z"], false),
    ] {
        let listed = installation.run(arguments);
        assert_eq!(
            listed.output.contains(REQUEST),
            is_found,
            "{arguments:?} {}{}",
            listed.output,
            listed.errors
        );
    }
    assert_eq!(installation.run(&["sends", "shop", "--status", "lost"]).code, 2);
    let waiting = installation.run(&["waiting", "--app", "shop", "--json"]).json();
    let group = &waiting[0];
    assert_eq!((&group["reason"], &group["provider"]), (&json!("breaker_open"), &json!("main")));
    assert_eq!((&group["code"], &group["deliveries"]), (&json!("535 5.7.8"), &json!(1)));
    let people = installation.run(&["waiting"]);
    assert!(people.output.contains("breaker open  main      535 5.7.8  1"), "{}", people.output);
}

#[tokio::test]
async fn refused_calls_are_listed() {
    let installation = with_one_send().await;
    assert_eq!(installation.run(&["refused", "shop"]).output, "No call was refused.\n");
    let pool = PgPool::connect(installation.database_url()).await.unwrap();
    let refused = "INSERT INTO refused_call (app_id, at, times, status, method, route, code, fields, api_key, client, proven)
         SELECT id, '2026-11-29T10:02:03Z', v.* FROM app, (VALUES
           (1, 400, 'POST', '/v3/notifications', 'required', ARRAY['notification.title'], 'pk_12345', '192.0.2.x', true),
           (9, 401, 'GET', '/v3/users/{id}', 'invalid_credentials', ARRAY[]::text[], 'pk_12345', '198.51.100.x', false)) AS v";
    sqlx::raw_sql(refused).execute(&pool).await.unwrap();
    pool.close().await;
    let list = installation.run(&["refused", "shop"]).output;
    for part in [
        "9      401     invalid_credentials",
        "GET /v3/users/{id}",
        "198.51.100.x (unproven)",
        "notification.title",
    ] {
        assert!(list.contains(part), "{part}\n{list}");
    }
    let told = installation.run(&["refused", "shop", "--code", "required", "--json"]).json();
    let expected = json!([{
        "at": "2026-11-29T10:02:03.000Z", "times": 1, "status": 400, "method": "POST", "route": "/v3/notifications",
        "code": "required", "fields": ["notification.title"], "apiKeyStart": "pk_12345", "client": "192.0.2.x", "proven": true,
    }]);
    assert_eq!(told, expected);
    assert_eq!(installation.run(&["refused", "shop", "--limit", "0"]).code, 2);
}

#[tokio::test]
async fn a_person_is_found_by_address_or_number_and_several_are_named() {
    let installation = with_one_send().await;
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let merge = async |user: &str, profile: serde_json::Value| {
        let pairs = profile.as_object().unwrap().clone();
        installation.store.directory().merge_user(app, user, pairs).await.unwrap();
    };
    merge("ada", json!({"email": "ada@example.com", "phoneNumber": "+49 151 12345678"})).await;
    for person in ["ada", "ADA@example.com", "+49 (0)151/12345678"] {
        let list = installation.run(&["explain", "shop", person, "--json"]);
        assert_eq!(list.code, 0, "{}", list.errors);
        assert_eq!(list.json()["person"]["identifier"], "ada", "{person}");
    }
    let page = installation.run(&["explain", "shop", "ada@example.com", REQUEST]);
    assert!(page.output.contains("Order 7 shipped → Ada (ada)"), "{}", page.output);

    merge("bob", json!({"email": "Ada@Example.com"})).await;
    let several = installation.run(&["explain", "shop", "ada@example.com"]);
    assert_eq!(several.code, 1);
    let named = "several users of app shop have ada@example.com: ada, bob; name one of them";
    assert!(several.errors.contains(named), "{}", several.errors);
    merge("ada@example.com", json!({"email": "other@example.com"})).await;
    let identifier = installation.run(&["explain", "shop", "ada@example.com", "--json"]).json();
    assert_eq!(identifier["person"]["identifier"], "ada@example.com", "an identifier comes first");
    let unknown = installation.run(&["explain", "shop", "eve@example.com"]);
    assert!(unknown.errors.contains("no user \"eve@example.com\""), "{}", unknown.errors);
}

/// Adds 2,000 later sends to Ada, of another category.
const MANY_SENDS: &str = "
    INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
      SELECT app.id, ('018f0000-0000-7000-8000-1' || lpad(n::text, 11, '0'))::uuid, '2026-11-29T11:00:00Z', 'transactional', 1
      FROM app, generate_series(1, 2000) AS n;
    INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
      SELECT r.app_id, send_id, 0, 0, 'ada', number, false, '{}'
      FROM request r JOIN app_user u ON u.app_id = r.app_id WHERE category_id IS NULL";

#[tokio::test]
async fn lists_say_how_far_they_searched_and_how_to_continue() {
    let installation = with_one_send().await;
    let pool = PgPool::connect(installation.database_url()).await.unwrap();
    sqlx::raw_sql(MANY_SENDS).execute(&pool).await.unwrap();
    pool.close().await;
    let explain = ["explain", "shop", "ada", "--category", "orders"];
    let list = installation.run(&explain).output;
    let earliest = "018f0000-0000-7000-8000-100000000001";
    let expected = format!(
        "No send to Ada matches among the 2000 that were examined, back to 2026-11-29T11:00:00.000Z.\n\
         There may be earlier ones: --before {earliest} continues.\n"
    );
    assert_eq!(list, expected);
    assert_eq!(installation.run(&[&explain[..], &["--json"]].concat()).json()["next"], earliest);
    let rest = installation.run(&[&explain[..], &["--before", earliest]].concat()).output;
    assert!(rest.contains("Order 7 shipped") && !rest.contains("--before"), "{rest}");

    let sends = installation.run(&["sends", "shop", "--limit", "1", "--json"]).json();
    let (first, next) = (&sends["data"][0]["requestId"], sends["next"].as_str().unwrap());
    assert_eq!(first, next);
    let more = installation.run(&["sends", "shop", "--limit", "1", "--before", next, "--json"]).json();
    assert!(more["data"][0]["requestId"].is_string() && more["data"][0]["requestId"] != *first, "{more}");
    let last = installation.run(&["sends", "shop", "--category", "orders", "--json"]).json();
    assert_eq!((&last["data"], &last["next"]), (&json!([]), &json!(earliest)));
}

#[tokio::test]
async fn processes_names_the_services_that_do_not_answer() {
    let (installation, nats) = (Installation::create().await, NatsServer::start().await.unwrap());
    let run = |arguments: &[&str]| installation.run_configured(arguments, &[("NATS_URL", nats.url())], "");
    let listed = run(&["processes"]);
    assert_eq!(listed.code, 1, "{}", listed.errors);
    assert!(
        listed.output.starts_with("SERVICES    MACHINE    VERSION  RUNNING SINCE\ndispatcher  NO ANSWER"),
        "{} {}",
        listed.output,
        listed.errors
    );
    let listed = run(&["processes", "--json"]);
    assert_eq!(listed.code, 1, "{}", listed.errors);
    let listed: Value = serde_json::from_str(&listed.output).unwrap();
    assert_eq!(
        (&listed["missing"], &listed["processes"]),
        (&json!(["dispatcher", "gateway", "inbox"]), &json!([]))
    );
}
