//! `tidings cancel` and `tidings erase`.

use serde_json::json;
use uuid::Uuid;

use crate::installation::Installation;

const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";

async fn installation() -> Installation {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let profile = json!({"email": "ada@example.com"}).as_object().cloned().unwrap();
    installation.store.directory().merge_user(app, "ada", profile).await.unwrap();
    let pool = sqlx::PgPool::connect(installation.database_url()).await.unwrap();
    let fill = "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
             SELECT id, '0197b5a2-0000-7000-8000-000000000001', now(), 'bulk', 'Order', 1 FROM app;
             INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
             SELECT app_id, '0197b5a2-0000-7000-8000-000000000001', 0, 0, identifier, number, false, '{}' FROM app_user;
             INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status)
             SELECT app_id, gen_random_uuid(), send_id, 0, user_number, 'email', 'ada@example.com', 'queued' FROM planned_recipient";
    sqlx::raw_sql(fill).execute(&pool).await.unwrap();
    pool.close().await;
    installation.store.database().fix_partitions(1).await.unwrap();
    installation
}

#[tokio::test]
async fn a_send_is_cancelled_once_and_an_unknown_one_is_reported() {
    let installation = installation().await;
    let cancelled = installation.run(&["cancel", "shop", SEND]);
    assert_eq!((cancelled.code, cancelled.output), (0, format!("Cancelled 1 delivery of send {SEND}.\n")));
    let again = installation.run(&["cancel", "shop", SEND, "--json"]).json();
    assert_eq!((&again["cancelled"], &again["requestId"]), (&json!(0), &json!(SEND)));
    let unknown = installation.run(&["cancel", "shop", &Uuid::nil().to_string()]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.errors.contains("has no send"), "{}", unknown.errors);
    assert_eq!(installation.run(&["cancel", "shop", "x"]).code, 2);
    let audit = installation.run(&["audit", "list", "shop"]).output;
    assert_eq!(audit.matches("request.cancel").count(), 1, "{audit}");
}

#[tokio::test]
async fn a_user_is_erased_and_then_unknown() {
    let installation = installation().await;
    let erased = installation.run(&["erase", "shop", "ada"]);
    assert_eq!((erased.code, erased.output.as_str()), (0, "Erased ada of app shop.\n"), "{}", erased.errors);
    let again = installation.run(&["erase", "shop", "ada"]);
    assert_eq!(again.code, 1);
    assert!(again.errors.contains("has no user \"ada\""), "{}", again.errors);
    let audit = installation.run(&["audit", "list", "shop"]).output;
    assert!(audit.contains("user.erase") && !audit.contains("ada@"), "{audit}");
}
