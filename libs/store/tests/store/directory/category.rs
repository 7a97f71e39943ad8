//! Categories.

use std::collections::BTreeSet;

use domain::CategoryId;
use store::directory::category::NewCategory;

use crate::fixture;

#[tokio::test]
async fn a_category_identifier_is_unique_in_its_app() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let orders = NewCategory { identifier: "orders", name: "Orders", ..NewCategory::default() };
    let created = fixture.store.directory().create_category(shop, orders, None).await.unwrap().unwrap();
    assert_eq!((created.identifier.as_str(), created.name.as_str()), ("orders", "Orders"));
    assert!(!created.hide_in_in_app && !created.hide_in_preference_manager);
    let again = NewCategory { name: "Again", ..orders };
    assert_eq!(fixture.store.directory().create_category(shop, again, None).await.unwrap(), None);

    let news = NewCategory { identifier: "news", name: "News", hide_in_in_app: true, ..orders };
    let news = fixture.store.directory().create_category(shop, news, None).await.unwrap().unwrap();
    let other = fixture.store.directory().create_category(bank, orders, None).await.unwrap().unwrap();
    assert_eq!(
        fixture.store.directory().list_categories(shop, None, 10).await.unwrap(),
        [created, news.clone()]
    );
    assert_eq!(
        fixture.store.directory().list_categories(bank, None, 10).await.unwrap(),
        std::slice::from_ref(&other)
    );

    let asked = BTreeSet::from([news.id, other.id, CategoryId(i64::MAX)]);
    assert_eq!(
        fixture.store.directory().known_categories(shop, &asked).await.unwrap(),
        BTreeSet::from([news.id])
    );
    assert!(!fixture.store.directory().delete_category(shop, other.id, None).await.unwrap());
    assert!(fixture.store.directory().delete_category(bank, other.id, None).await.unwrap());
    assert!(!fixture.store.directory().delete_category(bank, other.id, None).await.unwrap());
    assert_eq!(fixture.store.directory().list_categories(shop, None, 10).await.unwrap().len(), 2);
}
