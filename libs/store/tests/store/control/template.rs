//! Templates: versions never change. A template is found by identifier or id, and each of its versions by number.

use domain::id::TemplateId;
use domain::send::TemplateRef;
use domain::{Actor, AppId};
use serde_json::{Value, json};
use store::control::template::NewTemplate;

use crate::fixture;

fn welcome(channels: &Value) -> NewTemplate<'_> {
    NewTemplate { identifier: "welcome", name: "Welcome", category: Some("onboarding"), channels, mjml: None }
}

#[tokio::test]
async fn each_put_is_a_new_version_and_old_ones_stay() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let first = json!({"inApp": {"title": "Hello"}, "email": {"subject": "Hello"}});
    let second = json!({"inApp": {"title": "Hi"}});
    let (id, version) =
        fixture.store.control().put_template(app, welcome(&first), &Actor::System).await.unwrap();
    assert_eq!(version, 1);
    let renamed = NewTemplate { name: "Hi", category: None, ..welcome(&second) };
    assert_eq!(fixture.store.control().put_template(app, renamed, &Actor::System).await.unwrap(), (id, 2));

    let by_name = TemplateRef::Identifier("welcome".to_owned());
    let newest = fixture.store.control().find_template(app, &by_name).await.unwrap().unwrap();
    assert_eq!((newest.id, newest.version, newest.name.as_str()), (id, 2, "Hi"));
    assert_eq!((newest.identifier.as_str(), &newest.category, &newest.channels), ("welcome", &None, &second));
    assert_eq!(
        fixture.store.control().find_template(app, &TemplateRef::Id(id)).await.unwrap(),
        Some(newest.clone())
    );

    let pinned = fixture.store.control().template_version(app, id, 1).await.unwrap().unwrap();
    assert_eq!((&pinned.channels, pinned.category.as_deref()), (&first, Some("onboarding")));
    assert_eq!(fixture.store.control().template_version(app, id, 2).await.unwrap(), Some(newest));
    assert_eq!(fixture.store.control().template_version(app, id, 3).await.unwrap(), None);
}

#[tokio::test]
async fn a_list_contains_the_newest_version_of_each_template() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let channels = json!({"inApp": {"title": "Hello"}, "email": {"subject": "Hello"}});
    fixture.store.control().put_template(app, welcome(&channels), &Actor::System).await.unwrap();
    fixture.store.control().put_template(app, welcome(&channels), &Actor::System).await.unwrap();
    let alarm = NewTemplate { identifier: "alarm", category: None, ..welcome(&channels) };
    fixture.store.control().put_template(app, alarm, &Actor::System).await.unwrap();
    let listed = fixture.store.control().list_templates(app).await.unwrap();
    let rows: Vec<(&str, i32)> = listed.iter().map(|row| (row.identifier.as_str(), row.version)).collect();
    assert_eq!(rows, [("alarm", 1), ("welcome", 2)]);
    let mut covered = listed[0].channels.clone();
    covered.sort();
    assert_eq!(covered, ["email", "inApp"]);
}

#[tokio::test]
async fn another_apps_template_does_not_exist() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("other").await);
    let channels = json!({"inApp": {"title": "Hello"}});
    let (id, _) =
        fixture.store.control().put_template(app, welcome(&channels), &Actor::System).await.unwrap();
    let by_name = TemplateRef::Identifier("welcome".to_owned());
    assert_eq!(fixture.store.control().find_template(other, &by_name).await.unwrap(), None);
    assert_eq!(fixture.store.control().find_template(other, &TemplateRef::Id(id)).await.unwrap(), None);
    assert_eq!(fixture.store.control().template_version(other, id, 1).await.unwrap(), None);
    assert_eq!(
        fixture.store.control().find_template(app, &TemplateRef::Id(TemplateId(0))).await.unwrap(),
        None
    );
    assert!(fixture.store.control().list_templates(other).await.unwrap().is_empty());
    let refused = fixture
        .store
        .control()
        .put_template(AppId(999), welcome(&channels), &Actor::System)
        .await
        .unwrap_err();
    assert!(refused.is_refused_data(), "{refused}");
}

#[tokio::test]
async fn concurrent_puts_get_different_versions() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let channels = json!({"inApp": {"title": "Hello"}});
    let put = async || {
        fixture.store.control().put_template(app, welcome(&channels), &Actor::System).await.unwrap().1
    };
    let (a, b, c) = tokio::join!(put(), put(), put());
    let mut versions = [a, b, c];
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3]);
}
