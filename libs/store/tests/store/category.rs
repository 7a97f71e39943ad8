//! Categories.

use crate::fixture;

#[tokio::test]
async fn an_identifier_names_one_category_of_an_app() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let orders = fixture.store.create_category(shop, "orders", "Orders").await.unwrap().unwrap();
    assert_eq!((orders.identifier.as_str(), orders.name.as_str()), ("orders", "Orders"));
    assert!(!orders.hide_in_in_app && !orders.hide_in_preference_manager);
    assert_eq!(fixture.store.create_category(shop, "orders", "Again").await.unwrap(), None);

    let news = fixture.store.create_category(shop, "news", "News").await.unwrap().unwrap();
    let other = fixture.store.create_category(bank, "orders", "Orders").await.unwrap().unwrap();
    assert_eq!(fixture.store.list_categories(shop).await.unwrap(), [orders, news]);
    assert_eq!(fixture.store.list_categories(bank).await.unwrap(), [other]);
}
