//! Topics and subscriptions.

use domain::AppId;
use domain::content::Object;
use store::directory::topic::subscription::{OwnSubscription, SubscribeResult, SubscriptionChange};
use tokio::task::JoinSet;

use crate::{Fixture, NOW, fixture};

/// Creates users, and returns their identifiers.
async fn users(fixture: &Fixture, app: AppId, count: usize) -> Vec<String> {
    let users: Vec<_> = (0..count).map(|number| format!("user-{number}")).collect();
    for user in &users {
        fixture.store.directory().create_user(app, user, Object::new()).await.unwrap().unwrap();
    }
    users
}

async fn count(fixture: &Fixture, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&fixture.pool).await.unwrap()
}

#[tokio::test]
async fn a_topic_belongs_to_its_app_and_keeps_values_that_are_not_given() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let directory = fixture.store.directory();
    let (created, is_new) = directory.put_topic(shop, "news", (None, Some(true)), None).await.unwrap();
    assert!(is_new && created.open && created.name == "news");
    let (changed, is_new) = directory.put_topic(shop, "news", (Some("News"), None), None).await.unwrap();
    assert!(!is_new && changed.open && changed.name == "News" && changed.id == created.id);
    assert_eq!(directory.find_topic(shop, "news").await.unwrap(), Some(changed.clone()));
    assert_eq!(directory.find_topic(bank, "news").await.unwrap(), None);
    assert_eq!(directory.list_topics(shop, None, 10).await.unwrap(), std::slice::from_ref(&changed));
    assert!(directory.list_topics(shop, Some(changed.id), 10).await.unwrap().is_empty());
    assert!(directory.list_visible_topics(bank, "ada", None, 10).await.unwrap().is_empty());
    let visible = OwnSubscription { topic: changed, channels: None };
    assert_eq!(directory.list_visible_topics(shop, "ada", None, 10).await.unwrap(), [visible]);
    assert!(!directory.delete_topic(bank, "news", None).await.unwrap());
    assert!(directory.delete_topic(shop, "news", None).await.unwrap());
    assert!(!directory.delete_topic(shop, "news", None).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_of_subscriptions_do_not_deadlock() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let users = users(&fixture, app, 40).await;
    fixture.store.directory().put_topic(app, "news", (None, Some(true)), None).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..24 {
        let (store, mut users) = (fixture.store.clone(), users.clone());
        writers.spawn(async move {
            let directory = store.directory();
            for round in 0..6 {
                users.rotate_left((7 * writer + round + 1) % 40);
                let (add, remove) = users.split_at(20);
                let changes = directory.change_subscriptions(app, "news", add, remove, NOW).await.unwrap();
                assert_eq!(changes.unwrap().len(), 40);
                let subscribed =
                    directory.subscribe_user(app, "news", &users[writer], None, NOW).await.unwrap();
                assert_eq!(subscribed, SubscribeResult::Subscribed);
                assert!(directory.unsubscribe_user(app, "news", &users[round]).await.unwrap());
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    let stored = count(&fixture, "SELECT count(*) FROM topic_subscription").await;
    let used = "SELECT sum(used)::bigint FROM app_usage WHERE kind = 'subscriptions'";
    assert_eq!(count(&fixture, used).await, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_subscription_of_a_deleted_topic_is_forgotten() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let users = users(&fixture, app, 10).await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (store, users) = (fixture.store.clone(), users.clone());
        writers.spawn(async move {
            let directory = store.directory();
            for _ in 0..20 {
                match writer % 4 {
                    0 => {
                        directory.delete_topic(app, "news", None).await.unwrap();
                    }
                    1 => {
                        directory.put_topic(app, "news", (None, Some(true)), None).await.unwrap();
                    }
                    2 => {
                        directory.subscribe_user(app, "news", &users[writer], None, NOW).await.unwrap();
                    }
                    _ => {
                        directory.change_subscriptions(app, "news", &users, &[], NOW).await.unwrap();
                    }
                }
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    fixture.store.directory().delete_topic(app, "news", None).await.unwrap();
    while fixture.store.directory().remove_deleted_subscriptions(3).await.unwrap() > 0 {}
    for query in [
        "SELECT count(*) FROM topic",
        "SELECT count(*) FROM topic_subscription",
        "SELECT count(*) FROM deleted_topic",
        "SELECT coalesce(sum(used), 0)::bigint FROM app_usage WHERE kind IN ('topics', 'subscriptions')",
    ] {
        assert_eq!(count(&fixture, query).await, 0, "{query}");
    }
}

#[tokio::test]
async fn subscriptions_of_a_deleted_topic_are_removed_in_steps() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let users = users(&fixture, app, 5).await;
    let directory = fixture.store.directory();
    for topic in ["kept", "deleted"] {
        let changes = directory.change_subscriptions(app, topic, &users, &[], NOW).await.unwrap().unwrap();
        assert!(changes.iter().all(|(_, change)| *change == SubscriptionChange::Subscribed), "{changes:?}");
    }
    assert_eq!(directory.remove_deleted_subscriptions(2).await.unwrap(), 0);
    assert!(directory.delete_topic(app, "deleted", None).await.unwrap());
    // The last step removes one subscription and the record of the topic.
    for expected in [2, 2, 2, 0] {
        assert_eq!(directory.remove_deleted_subscriptions(2).await.unwrap(), expected);
    }
    let kept = directory.list_subscribers(app, "kept", None, 10).await.unwrap().unwrap();
    assert_eq!(kept.len(), 5);
    assert!(kept.iter().all(|subscriber| subscriber.subscribed_at == NOW), "{kept:?}");
    let rest = directory.list_subscribers(app, "kept", Some(kept[2].number), 1).await.unwrap().unwrap();
    assert_eq!(rest, kept[3..4]);
    assert_eq!(directory.list_subscribers(app, "deleted", None, 10).await.unwrap(), None);
    let of_user = directory.list_topics_of_user(app, &users[0], None, 10).await.unwrap().unwrap();
    assert_eq!(of_user.iter().map(|topic| topic.identifier.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(directory.list_topics_of_user(app, "unknown", None, 10).await.unwrap(), None);
}
