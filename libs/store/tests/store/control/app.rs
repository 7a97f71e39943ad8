//! Apps and the rotation of their secrets.

use std::time::Duration;

use domain::{Actor, AppId};
use sqlx::Row;
use store::control::app::{NewApp, NewSecret};

use crate::{Fixture, fixture};

const GRACE: Duration = Duration::from_secs(3600);

fn new_app<'a>(name: &'a str, api_key: &'a str) -> NewApp<'a> {
    NewApp { name, api_key, development: false }
}

fn secret(digest: &[u8]) -> NewSecret<'_> {
    NewSecret { digest, sealed: b"sealed" }
}

async fn digests(fixture: &Fixture, app: AppId) -> Vec<Vec<u8>> {
    let app = fixture.store.control().app_by_name_or_id(&app.to_string()).await.unwrap().unwrap();
    app.secrets.into_iter().map(|secret| secret.digest).collect()
}

#[tokio::test]
async fn an_app_is_found_by_its_key_name_and_id() {
    let fixture = fixture().await;
    let draft =
        fixture.store.control().create_app(new_app("shop", "key-1"), &Actor::System).await.unwrap().unwrap();
    let id = draft.commit(secret(b"one")).await.unwrap();

    let app = fixture.store.control().app_by_key("key-1").await.unwrap().unwrap();
    assert_eq!(
        (app.id, app.name.as_str(), app.settings.disabled, app.development),
        (id, "shop", false, false)
    );
    assert_eq!(app.secrets.len(), 1);
    assert_eq!((app.secrets[0].digest.as_slice(), app.secrets[0].expires_at), (&b"one"[..], None));
    assert_eq!(fixture.store.control().app_by_name_or_id("shop").await.unwrap().as_ref(), Some(&app));
    assert_eq!(
        fixture.store.control().app_by_name_or_id(&id.to_string()).await.unwrap().as_ref(),
        Some(&app)
    );
    assert_eq!(fixture.store.control().list_apps().await.unwrap(), [app]);
    assert_eq!(fixture.store.control().app_by_key("key-2").await.unwrap(), None);
    assert_eq!(fixture.store.control().app_by_name_or_id("shop2").await.unwrap(), None);
}

#[tokio::test]
async fn a_name_wins_over_the_id_of_another_app() {
    let fixture = fixture().await;
    let first = fixture.app("first").await;
    let named = fixture.app(&first.to_string()).await;
    assert_eq!(
        fixture.store.control().app_by_name_or_id(&first.to_string()).await.unwrap().unwrap().id,
        named
    );
}

#[tokio::test]
async fn an_app_name_is_unique_and_not_empty() {
    let fixture = fixture().await;
    fixture.app("shop").await;
    assert!(
        fixture
            .store
            .control()
            .create_app(new_app("shop", "another"), &Actor::System)
            .await
            .unwrap()
            .is_none()
    );
    let refused = fixture.store.control().create_app(new_app("", "key"), &Actor::System).await.unwrap_err();
    assert!(refused.is_refused_data(), "{refused}");
}

#[tokio::test]
async fn an_app_without_a_secret_is_not_created() {
    let fixture = fixture().await;
    drop(fixture.store.control().create_app(new_app("shop", "key"), &Actor::System).await.unwrap());
    let again =
        fixture.store.control().create_app(new_app("shop", "key"), &Actor::System).await.unwrap().unwrap();
    again.commit(secret(b"one")).await.unwrap();
    assert_eq!(fixture.store.control().list_apps().await.unwrap().len(), 1);
}

#[tokio::test]
async fn at_most_two_secrets_are_live() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    assert!(fixture.store.control().rotate_secret(app, secret(b"two"), GRACE, &Actor::System).await.unwrap());
    assert_eq!(digests(&fixture, app).await, [b"two".to_vec(), b"shop".to_vec()]);
    let app_row = fixture.store.control().app_by_name_or_id("shop").await.unwrap().unwrap();
    assert_eq!(app_row.secrets[0].expires_at, None);
    assert!(app_row.secrets[1].expires_at > Some(app_row.created_at + GRACE - Duration::from_secs(1)));

    fixture.store.control().rotate_secret(app, secret(b"three"), GRACE, &Actor::System).await.unwrap();
    assert_eq!(digests(&fixture, app).await, [b"three".to_vec(), b"two".to_vec()]);
    fixture
        .store
        .control()
        .rotate_secret(app, secret(b"four"), Duration::ZERO, &Actor::System)
        .await
        .unwrap();
    assert_eq!(digests(&fixture, app).await, [b"four".to_vec()]);
    assert!(
        !fixture
            .store
            .control()
            .rotate_secret(AppId(999), secret(b"x"), GRACE, &Actor::System)
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn concurrent_rotations_leave_two_live_secrets() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let rotate = async |digest: &'static [u8]| {
        fixture.store.control().rotate_secret(app, secret(digest), GRACE, &Actor::System).await
    };
    let (a, b, c) = tokio::join!(rotate(b"a"), rotate(b"b"), rotate(b"c"));
    assert!(a.unwrap() && b.unwrap() && c.unwrap());
    assert_eq!(digests(&fixture, app).await.len(), 2);
}

#[tokio::test]
async fn every_change_is_recorded_in_the_audit_log() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture
        .store
        .control()
        .rotate_secret(app, secret(b"two"), GRACE, &Actor::Cli("ada".to_owned()))
        .await
        .unwrap();
    let rows = sqlx::query("SELECT app_id, actor, action, subject FROM audit ORDER BY id")
        .fetch_all(&fixture.pool)
        .await
        .unwrap();
    let rows: Vec<(i64, &str, &str, &str)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    let expected = [(app.0, "system", "app.create", "shop"), (app.0, "cli:ada", "app.rotate-secret", "shop")];
    assert_eq!(rows, expected);
}
