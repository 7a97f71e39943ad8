//! Endpoints of apps: what the audit log says of them.

use std::time::Duration;

use domain::webhook::WebhookEvent;

use crate::fixture;

#[tokio::test]
async fn the_audit_log_names_an_endpoint_without_its_tokens() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let urls = [
        "https://ada:canary@hooks.example.com:8443/canary?token=canary#canary",
        "https://a.example.com?canary",
    ];
    let mut ids = Vec::new();
    for url in urls {
        let draft = fixture.store.put_endpoint(app, url, WebhookEvent::ALL).await.unwrap().unwrap();
        ids.push(draft.id());
        draft.commit(Some(b"sealed"), "test").await.unwrap();
    }
    let hour = Duration::from_secs(3600);
    assert!(fixture.store.rotate_webhook_secret(app, ids[0], b"new", hour, "test").await.unwrap());
    assert!(fixture.store.remove_endpoint(app, ids[0], "test").await.unwrap());
    let audit = "SELECT action, subject FROM audit WHERE action LIKE 'webhook.%' ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(audit).fetch_all(&fixture.pool).await.unwrap();
    let first = format!("{} https://hooks.example.com:8443", ids[0]);
    let expected = [
        ("webhook.set", first.clone()),
        ("webhook.set", format!("{} https://a.example.com", ids[1])),
        ("webhook.secret.rotate", first.clone()),
        ("webhook.remove", first),
    ];
    assert_eq!(rows, expected.map(|(action, subject)| (action.to_owned(), subject)));
}
