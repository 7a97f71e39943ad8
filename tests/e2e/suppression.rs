//! `tidings suppression`: lists suppressed targets in masked form, and lifts suppressions.

use serde_json::json;

use crate::installation::Installation;

async fn with_suppressions() -> Installation {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let pool = sqlx::PgPool::connect(installation.database_url()).await.unwrap();
    for (channel, target, age) in [("email", "ada@example.com", 1), ("mobilePush", "fcm:abcdef", 2)] {
        sqlx::query(
            "INSERT INTO suppression (app_id, channel, target, delivery_id, code, created_at)
             VALUES ($1, $2, $3, '00000000-0000-0000-0000-00000000000a', '550', now() - $4 * interval '1 hour')",
        )
        .bind(app.0)
        .bind(channel)
        .bind(target)
        .bind(f64::from(age))
        .execute(&pool)
        .await
        .unwrap();
    }
    installation
}

#[tokio::test]
async fn suppressions_are_listed_masked_unless_revealed() {
    let installation = with_suppressions().await;
    let listed = installation.run(&["suppression", "list"]);
    assert_eq!(listed.code, 0, "{}", listed.errors);
    assert!(!listed.output.contains("ada@") && !listed.output.contains("abcdef"), "{}", listed.output);
    let listed = installation.run(&["suppression", "list", "shop", "--json"]).json();
    assert_eq!(installation.run(&["suppression", "list", "--app", "shop", "--json"]).json(), listed);
    assert_eq!(installation.run(&["suppression", "list", "bank"]).code, 1);
    assert_eq!(installation.run(&["suppression", "list", "shop", "--app", "shop"]).code, 2);
    assert_eq!(
        (&listed[0]["target"], &listed[1]["target"]),
        (&json!("a***@example.com"), &json!("fcm:a***"))
    );
    assert_eq!((&listed[0]["code"], &listed[0]["app"]), (&json!("550"), &json!("shop")));

    let revealed =
        installation.run(&["suppression", "list", "--channel", "mobilePush", "--reveal", "--json"]);
    assert_eq!(revealed.json().as_array().unwrap().len(), 1);
    assert!(revealed.output.contains("fcm:abcdef"));
    let first = installation.run(&["suppression", "list", "--limit", "1"]);
    assert!(first.output.contains("There are more than 1"), "{}", first.output);

    assert_eq!(installation.run(&["suppression", "list", "--channel", "inApp"]).code, 2);
    assert_eq!(installation.run(&["suppression", "list", "--app", "bank"]).code, 1);
}

#[tokio::test]
async fn a_suppression_is_lifted_once_by_target_or_delivery() {
    let installation = with_suppressions().await;
    let lift = |arguments: &[&str]| installation.run(&[&["suppression", "lift", "shop"], arguments].concat());
    let lifted = lift(&["email", "ada@example.com"]);
    assert_eq!(lifted.code, 0, "{}", lifted.errors);
    assert!(
        lifted.output.contains("a***@example.com") && !lifted.output.contains("ada@"),
        "{}",
        lifted.output
    );
    let again = lift(&["email", "ada@example.com"]);
    assert_eq!(again.code, 1);
    assert!(
        again.errors.contains("no such suppression") && !again.errors.contains("ada@"),
        "{}",
        again.errors
    );
    let by_delivery = lift(&["mobilePush", "00000000-0000-0000-0000-00000000000a", "--json"]).json();
    assert_eq!((&by_delivery["target"], &by_delivery["restored"]), (&json!("fcm:a***"), &json!("nothing")));
    assert_eq!(installation.run(&["suppression", "list", "--json"]).json(), json!([]));
}
