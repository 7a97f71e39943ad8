//! Providers: upsert, order and secrets.

use domain::{Actor, AppId, Channel};
use serde_json::{Value, json};
use store::control::provider::NewProvider;
use store::control::provider::SecretChange::{Keep, Remove, Replace};

use crate::{Fixture, fixture};

fn smtp<'a>(identifier: &'a str, settings: &'a Value) -> NewProvider<'a> {
    let (channel, kind) = (Channel::Email, "smtp");
    NewProvider {
        identifier,
        channel,
        kind,
        priority: 10,
        enabled: true,
        settings,
        secret: Keep,
        max_per_second: None,
    }
}

async fn put(fixture: &Fixture, app: AppId, provider: NewProvider<'_>) -> i64 {
    fixture.store.control().put_provider(app, provider, &Actor::System).await.unwrap()
}

#[tokio::test]
async fn enabled_providers_are_listed_by_priority_number() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("other").await);
    let settings = json!({"host": "mail.example.com"});
    put(&fixture, app, NewProvider { priority: 20, ..smtp("a", &settings) }).await;
    put(&fixture, app, NewProvider { priority: -1, ..smtp("z", &settings) }).await;
    put(&fixture, app, NewProvider { priority: 20, ..smtp("b", &settings) }).await;
    put(&fixture, app, NewProvider { enabled: false, priority: 0, ..smtp("off", &settings) }).await;
    put(&fixture, app, NewProvider { channel: Channel::Sms, enabled: false, ..smtp("sms", &settings) }).await;

    let rows = fixture.store.control().providers(app, Channel::Email).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.identifier.as_str()).collect::<Vec<_>>(), ["z", "a", "b"]);
    assert_eq!((rows[0].kind.as_str(), rows[0].priority, &rows[0].settings), ("smtp", -1, &settings));
    assert_eq!(fixture.store.control().enabled_channels(app).await.unwrap(), [Channel::Email]);
    assert_eq!(fixture.store.control().enabled_channels(other).await.unwrap(), []);
    assert!(fixture.store.control().providers(other, Channel::Email).await.unwrap().is_empty());

    let listed = fixture.store.control().list_providers(app).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|row| row.identifier.as_str()).collect();
    assert_eq!(names, ["z", "off", "a", "b", "sms"]);
    assert!(fixture.store.control().list_providers(other).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_secret_is_kept_replaced_and_removed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let (before, after) = (json!({"host": "a"}), json!({"host": "b"}));
    assert_eq!(put(&fixture, app, NewProvider { secret: Replace(b"old"), ..smtp("main", &before) }).await, 1);
    assert_eq!(put(&fixture, app, smtp("main", &after)).await, 2);
    let row = fixture.store.control().providers(app, Channel::Email).await.unwrap().remove(0);
    assert_eq!((row.sealed.as_deref(), row.version, &row.settings), (Some(&b"old"[..]), 2, &after));

    put(&fixture, app, NewProvider { secret: Replace(b"new"), ..smtp("main", &after) }).await;
    let row = fixture.store.control().providers(app, Channel::Email).await.unwrap().remove(0);
    assert_eq!((row.sealed.as_deref(), row.version), (Some(&b"new"[..]), 3));
    assert!(fixture.store.control().list_providers(app).await.unwrap()[0].has_secret);

    put(&fixture, app, NewProvider { secret: Remove, ..smtp("main", &after) }).await;
    let row = fixture.store.control().providers(app, Channel::Email).await.unwrap().remove(0);
    assert_eq!((row.sealed, row.version), (None, 4));
}

#[tokio::test]
async fn a_provider_created_again_continues_the_version_of_the_removed_one() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("other").await);
    let settings = json!({});
    put(&fixture, app, smtp("main", &settings)).await;
    put(&fixture, app, smtp("main", &settings)).await;
    for last in [2, 4] {
        assert!(fixture.store.control().remove_provider(app, "main", &Actor::System).await.unwrap());
        assert!(!fixture.store.control().remove_provider(app, "main", &Actor::System).await.unwrap());
        assert_eq!(put(&fixture, app, smtp("main", &settings)).await, last + 1);
        assert_eq!(
            fixture.store.control().providers(app, Channel::Email).await.unwrap()[0].version,
            last + 1
        );
        assert_eq!(put(&fixture, app, smtp("main", &settings)).await, last + 2);
    }
    assert_eq!(put(&fixture, app, smtp("second", &settings)).await, 1);
    assert_eq!(put(&fixture, other, smtp("main", &settings)).await, 1);
}

#[tokio::test]
async fn a_provider_set_during_its_removal_gets_a_higher_version() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let settings = json!({});
    put(&fixture, app, smtp("main", &settings)).await;
    for _ in 0..20 {
        let last = fixture.store.control().providers(app, Channel::Email).await.unwrap()[0].version;
        let remove = fixture.store.control().remove_provider(app, "main", &Actor::System);
        let (removed, set) = tokio::join!(remove, put(&fixture, app, smtp("main", &settings)));
        assert!(removed.unwrap() && set > last, "{set} after {last}");
        assert!(put(&fixture, app, smtp("main", &settings)).await > set);
    }
}

#[tokio::test]
async fn a_secret_is_not_carried_over_to_another_kind() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let settings = json!({});
    put(&fixture, app, NewProvider { secret: Replace(b"old"), ..smtp("main", &settings) }).await;
    put(&fixture, app, NewProvider { kind: "other", ..smtp("main", &settings) }).await;
    assert!(!fixture.store.control().list_providers(app).await.unwrap()[0].has_secret);
}

#[tokio::test]
async fn a_provider_of_an_unknown_app_is_refused() {
    let fixture = fixture().await;
    let settings = json!({});
    let refused = fixture
        .store
        .control()
        .put_provider(AppId(999), smtp("main", &settings), &Actor::System)
        .await
        .unwrap_err();
    assert!(refused.is_refused_data(), "{refused}");
}

#[tokio::test]
async fn setting_a_provider_again_replaces_its_rate_limit() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let settings = json!({});
    put(&fixture, app, NewProvider { max_per_second: Some(20), ..smtp("main", &settings) }).await;
    let limit = async || {
        let listed = fixture.store.control().list_providers(app).await.unwrap()[0].max_per_second;
        let used = fixture.store.control().providers(app, Channel::Email).await.unwrap()[0].max_per_second;
        assert_eq!(listed, used);
        listed
    };
    assert_eq!(limit().await, Some(20));
    put(&fixture, app, smtp("main", &settings)).await;
    assert_eq!(limit().await, None);
}

#[tokio::test]
async fn a_provider_moves_before_the_one_that_the_caller_saw_before_it() {
    let fixture = fixture().await;
    let (app, settings) = (fixture.app("shop").await, json!({}));
    for identifier in ["a", "b", "c"] {
        put(&fixture, app, smtp(identifier, &settings)).await;
    }
    put(&fixture, app, NewProvider { channel: Channel::Sms, ..smtp("sms", &settings) }).await;
    let control = fixture.store.control();
    assert!(control.move_provider(app, "c", "b", &Actor::System).await.unwrap());
    for (identifier, before) in [("c", "b"), ("a", "c"), ("sms", "c"), ("none", "a"), ("a", "none")] {
        let moved = control.move_provider(app, identifier, before, &Actor::System).await.unwrap();
        assert!(!moved, "{identifier} is not behind {before}");
    }
    let listed = control.list_providers(app).await.unwrap();
    let order: Vec<_> = listed.iter().map(|row| (row.identifier.as_str(), row.version)).collect();
    assert_eq!(order, [("a", 1), ("c", 2), ("b", 2), ("sms", 1)]);
}
