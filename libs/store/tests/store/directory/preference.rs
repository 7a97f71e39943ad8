//! Preferences.

use std::collections::BTreeMap;

use domain::{AppId, CategoryId, Channel};
use store::directory::category::NewCategory;

use crate::{Fixture, fixture};

async fn category(fixture: &Fixture, app: AppId, identifier: &str) -> CategoryId {
    let new = NewCategory { identifier, name: identifier, ..NewCategory::default() };
    fixture.store.directory().create_category(app, new, None).await.unwrap().unwrap().id
}

#[tokio::test]
async fn setting_preferences_changes_only_the_given_channels() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let (orders, news) = (category(&fixture, shop, "orders").await, category(&fixture, shop, "news").await);
    let set = async |choices: &[((CategoryId, Channel), bool)]| {
        fixture
            .store
            .directory()
            .set_preferences(shop, "ada", &choices.iter().copied().collect())
            .await
            .unwrap();
    };
    set(&[((news, Channel::Email), false), ((orders, Channel::InApp), true)]).await;
    set(&[((news, Channel::Email), true), ((news, Channel::Sms), false)]).await;
    let listed = fixture.store.directory().list_preferences(shop, "ada").await.unwrap();
    let found: Vec<_> = listed.into_iter().map(|one| (one.category, one.identifier, one.channels)).collect();
    let of_orders = BTreeMap::from([(Channel::InApp, true)]);
    let of_news = BTreeMap::from([(Channel::Email, true), (Channel::Sms, false)]);
    assert_eq!(found, [(orders, "orders".to_owned(), of_orders), (news, "news".to_owned(), of_news)]);
    assert_eq!(fixture.store.directory().list_preferences(bank, "ada").await.unwrap(), []);
    assert_eq!(fixture.store.directory().list_preferences(shop, "bob").await.unwrap(), []);
}

#[tokio::test]
async fn deleting_a_category_deletes_its_preferences() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let orders = category(&fixture, shop, "orders").await;
    let foreign = category(&fixture, bank, "orders").await;
    let choices = BTreeMap::from([((orders, Channel::Email), false), ((foreign, Channel::Email), false)]);
    fixture.store.directory().set_preferences(shop, "ada", &choices).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM preference").await, 1);
    assert!(fixture.store.directory().delete_category(shop, orders, None).await.unwrap());
    assert_eq!(fixture.count("SELECT count(*) FROM preference").await, 0);
    fixture.store.directory().set_preferences(shop, "ada", &choices).await.unwrap();
    assert_eq!(fixture.store.directory().list_preferences(shop, "ada").await.unwrap(), []);
}
