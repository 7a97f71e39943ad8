//! The audit log, and error texts without personal data.

use domain::{ActorKind, AppId, Timestamp};
use store::Error;
use store::database::audit::{AuditFilter, AuditScope};

use crate::fixture;

#[tokio::test]
async fn the_audit_log_is_append_only_for_its_owner_too() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let before = fixture.store.database().list_audit(app.into(), 10).await.unwrap();
    assert!(!before.is_empty(), "the creation of the app is recorded");
    for change in ["UPDATE audit SET actor = 'cli:eve'", "DELETE FROM audit", "TRUNCATE audit"] {
        let refused = sqlx::query(change).execute(&fixture.pool).await.unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{change}: {refused}");
    }
    assert_eq!(fixture.store.database().list_audit(app.into(), 10).await.unwrap(), before);
}

#[tokio::test]
async fn the_audit_log_is_listed_by_app_latest_first() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.app("other").await;
    sqlx::query(
        "INSERT INTO audit (app_id, at, actor, action, subject)
         VALUES ($1, '2040-01-31', 'cli:ada', 'app.set', 'shop')",
    )
    .bind(app.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let all = fixture.store.database().list_audit(app.into(), 10).await.unwrap();
    assert_eq!((all.len(), all[0].actor.as_str(), all[0].actor_kind), (2, "cli:ada", None));
    assert_eq!((all[1].actor.as_str(), all[1].actor_kind), ("system", Some(ActorKind::System)));
    let since = Some(Timestamp::parse("2040-01-01T00:00:00Z").unwrap());
    let later = AuditFilter { since, ..AuditFilter::from(app) };
    assert_eq!(fixture.store.database().list_audit(later, 10).await.unwrap(), all[..1]);
    assert_eq!(fixture.store.database().list_audit(app.into(), 1).await.unwrap(), all[..1]);
    assert_eq!(fixture.store.database().list_audit(AppId(0).into(), 10).await.unwrap(), []);
}

#[tokio::test]
async fn the_audit_log_is_listed_by_kind_of_actor_and_for_the_installation() {
    let fixture = fixture().await;
    let (shop, other) = (fixture.app("shop").await, fixture.app("other").await);
    sqlx::query(
        "INSERT INTO audit (app_id, actor, actor_kind, action, subject)
         VALUES ($1, 'api:::1', 'app', 'user.erase', 'user 7'), (NULL, 'operator:7', 'operator', 'app.set', 'all')",
    )
    .bind(other.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let listed = async |scope, actor_kind| {
        let filter = AuditFilter { scope, actor_kind, since: None };
        let rows = fixture.store.database().list_audit(filter, 10).await.unwrap();
        rows.into_iter().map(|row| (row.app, row.actor)).collect::<Vec<_>>()
    };
    let row = |app, actor: &str| (app, actor.to_owned());
    let installation = row(None, "operator:7");
    assert_eq!(listed(AuditScope::Installation, None).await, std::slice::from_ref(&installation));
    assert_eq!(listed(AuditScope::Installation, Some(ActorKind::App)).await, []);
    let expected =
        [installation, row(Some(other), "api:::1"), row(Some(other), "system"), row(Some(shop), "system")];
    assert_eq!(listed(AuditScope::All, None).await, expected);
    let by_apps = listed(AuditScope::App(other), Some(ActorKind::App)).await;
    assert_eq!(by_apps, [row(Some(other), "api:::1")]);
    assert_eq!(listed(AuditScope::App(shop), Some(ActorKind::App)).await, []);
}

#[tokio::test]
async fn the_text_of_an_error_never_quotes_refused_data() {
    let fixture = fixture().await;
    for statement in ["SELECT 'planted'::int", "SELECT 'planted'::uuid", "SELECT 'planted'::timestamptz"] {
        let error = sqlx::query(statement).execute(&fixture.pool).await.unwrap_err();
        assert!(error.to_string().contains("planted"), "PostgreSQL quotes the value: {error}");
        let text = text(&Error::from(error));
        assert!(!text.contains("planted") && text.contains("SQLSTATE 22"), "{text}");
    }
    let decoded: Result<i64, _> = sqlx::query_scalar("SELECT 'planted'").fetch_one(&fixture.pool).await;
    let text = text(&Error::from(decoded.unwrap_err()));
    assert!(!text.contains("planted"), "{text}");
}

/// Formats the error with its causes, as a log line does.
fn text(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
