//! Queries that read inboxes.

use domain::content::Object;
use domain::inbox::Counts;
use domain::{AppId, ItemId, Timestamp, UserNumber};
use store::directory::category::NewCategory;
use store::inbox::list::{InboxFilter, InboxItem, InboxPage, MAX_COUNTED, PageStart, Place};

use crate::{Fixture, fixture};

const FIRST: PageStart = PageStart::Offset(0);

impl Fixture {
    /// Adds `count` items with consecutive ids, starting at `first`. Items 2n and 2n + 1 have the same creation time.
    async fn add_items(&self, app: AppId, user: UserNumber, first: i64, count: i64) {
        sqlx::query(
            "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, content, event_id)
             SELECT $1, $2, n, gen_random_uuid(), to_timestamp(n / 2 / 1000.0), json_build_object('n', n),
                    gen_random_uuid()
             FROM generate_series($3::bigint, $3 + $4 - 1) AS n",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(first)
        .bind(count)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    pub(crate) async fn run(&self, statement: &'static str) {
        sqlx::query(statement).execute(&self.pool).await.unwrap();
    }

    async fn ids(&self, app: AppId, user: UserNumber, filter: InboxFilter<'_>, start: PageStart) -> Vec<i64> {
        let page = self.store.inbox().list_inbox(app, user, filter, start, 3).await.unwrap();
        page.items.iter().map(|item| item.id.0).collect()
    }
}

fn ids(items: &[InboxItem]) -> Vec<i64> {
    items.iter().map(|item| item.id.0).collect()
}

#[tokio::test]
async fn pages_go_from_the_newest_to_the_oldest() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.store.directory().merge_user(app, "ada", Object::new()).await.unwrap().number;
    let bob = fixture.store.directory().merge_user(app, "bob", Object::new()).await.unwrap().number;
    fixture.add_items(app, ada, 1, 7).await;
    fixture.add_items(app, bob, 100, 1).await;
    fixture.run("UPDATE inbox_item SET deleted_at = now(), content = NULL WHERE id = 4").await;

    let all = InboxFilter::default();
    let page = fixture.store.inbox().list_inbox(app, ada, all, FIRST, 3).await.unwrap().items;
    assert_eq!(ids(&page), [7, 6, 5]);
    assert_eq!(page[0].created_at, Timestamp::from_millis(3));
    assert_eq!(page[0].content, "{\"n\" : 7}");
    assert_eq!(fixture.ids(app, ada, all, PageStart::Offset(3)).await, [3, 2, 1]);
    assert_eq!(fixture.ids(app, ada, all, PageStart::Offset(6)).await, [0; 0]);
    // The page starts between two items with the same creation time.
    let after = PageStart::After(Timestamp::from_millis(3), ItemId(7));
    fixture.add_items(app, ada, 8, 1).await;
    assert_eq!(fixture.ids(app, ada, all, after).await, [6, 5, 3]);
    assert_eq!(fixture.ids(app, bob, all, FIRST).await, [100]);
    let other = fixture.app("bank").await;
    assert_eq!(fixture.ids(other, ada, all, FIRST).await, [0; 0]);
}

#[tokio::test]
async fn filters_apply_to_lists_and_counts_alike() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.store.directory().merge_user(app, "ada", Object::new()).await.unwrap().number;
    fixture.add_items(app, ada, 1, 4).await;
    let orders = NewCategory { identifier: "orders", name: "Orders", ..NewCategory::default() };
    let orders = fixture.store.directory().create_category(app, orders, None).await.unwrap().unwrap();
    sqlx::query("UPDATE inbox_item SET category_id = $1 WHERE id IN (1, 2)")
        .bind(orders.id.0)
        .execute(&fixture.pool)
        .await
        .unwrap();
    fixture.run("UPDATE inbox_item SET seen_at = now() WHERE id IN (2, 3)").await;
    fixture.run("UPDATE inbox_item SET clicked_at = now(), state = 'done' WHERE id = 3").await;
    fixture.add_items(app, ada, 5, 3).await;
    fixture.run("UPDATE inbox_item SET archived_at = now() WHERE id IN (5, 6)").await;
    fixture.run("UPDATE inbox_item SET seen_at = now() WHERE id = 6").await;
    fixture.run("UPDATE inbox_item SET snoozed_until = now() WHERE id = 7").await;

    let none = InboxFilter::default();
    let category = Some("orders");
    let cases = [
        (InboxFilter { read: Some(true), ..none }, vec![3]),
        (InboxFilter { read: Some(false), ..none }, vec![4, 2, 1]),
        (InboxFilter { seen: Some(true), ..none }, vec![3, 2]),
        (InboxFilter { seen: Some(false), ..none }, vec![4, 1]),
        (InboxFilter { has_state: Some(true), ..none }, vec![3]),
        (InboxFilter { category, ..none }, vec![2, 1]),
        (InboxFilter { category, seen: Some(false), ..none }, vec![1]),
        (InboxFilter { category: Some("unknown"), ..none }, vec![]),
        (InboxFilter { place: Place::Archive, ..none }, vec![6, 5]),
        (InboxFilter { place: Place::Archive, seen: Some(true), ..none }, vec![6]),
        (InboxFilter { place: Place::Snoozed, ..none }, vec![7]),
    ];
    for (filter, expected) in cases {
        assert_eq!(fixture.ids(app, ada, filter, FIRST).await, expected, "{filter:?}");
        let count = fixture.store.inbox().count_inbox(app, ada, filter).await.unwrap();
        assert_eq!(count, expected.len() as i64, "{filter:?}");
    }
    let item = fixture.store.inbox().find_item(app, None, ItemId(2)).await.unwrap().unwrap();
    let category = item.category.unwrap();
    assert_eq!(
        (category.id, category.identifier.as_str(), category.name.as_str()),
        (orders.id, "orders", "Orders")
    );
    assert!(item.state.seen_at.is_some() && item.state.clicked_at.is_none());
}

#[tokio::test]
async fn counts_of_inbox_items_stop_at_the_maximum() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add_items(app, UserNumber(1), 1, MAX_COUNTED + 5).await;
    let count = fixture.store.inbox().count_inbox(app, UserNumber(1), InboxFilter::default()).await.unwrap();
    assert_eq!(count, MAX_COUNTED);
}

#[tokio::test]
async fn an_item_is_found_only_in_its_own_inbox() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let ada = fixture.store.directory().merge_user(app, "ada", Object::new()).await.unwrap().number;
    fixture.store.directory().merge_user(app, "bob", Object::new()).await.unwrap();
    fixture.store.directory().merge_user(other, "ada", Object::new()).await.unwrap();
    fixture.add_items(app, ada, 1, 2).await;
    fixture.run("UPDATE inbox_item SET deleted_at = now() WHERE id = 2").await;
    let cases = [
        (app, Some("ada"), 1, true),
        (app, None, 1, true),
        (app, Some("bob"), 1, false),
        (app, Some("nobody"), 1, false),
        (other, Some("ada"), 1, false),
        (other, None, 1, false),
        (app, None, 2, false),
        (app, None, 3, false),
    ];
    for (app, user, id, found) in cases {
        let item = fixture.store.inbox().find_item(app, user, ItemId(id)).await.unwrap();
        assert_eq!(item.is_some(), found, "{app} {user:?} {id}");
    }
}

#[tokio::test]
async fn looking_up_the_owner_and_listing_both_return_the_counters() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    assert_eq!(fixture.store.inbox().inbox_owner(app, "ada").await.unwrap(), None);
    let ada = fixture.store.directory().merge_user(app, "ada", Object::new()).await.unwrap().number;
    let owner = fixture.store.inbox().inbox_owner(app, "ada").await.unwrap().unwrap();
    assert_eq!((owner.user, owner.counts), (ada, Counts::default()));
    sqlx::query(
        "INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen, hidden) VALUES ($1, $2, 3, 2, 1, 4)",
    )
    .bind(app.0)
    .bind(ada.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let owner = fixture.store.inbox().inbox_owner(app, "ada").await.unwrap().unwrap();
    let counts = Counts { total: 3, unread: 2, unseen: 1, hidden: 4 };
    assert_eq!(owner.counts, counts);
    let empty = fixture.store.inbox().list_inbox(app, ada, InboxFilter::default(), FIRST, 3).await.unwrap();
    assert_eq!(empty, InboxPage { counts, items: Vec::new() });
    let other = fixture.app("bank").await;
    assert_eq!(fixture.store.inbox().inbox_owner(other, "ada").await.unwrap(), None);
}

#[tokio::test]
async fn positions_are_those_of_the_inbox_projection() {
    let fixture = fixture().await;
    assert_eq!(fixture.store.inbox().positions().await.unwrap(), []);
    fixture
        .run("INSERT INTO checkpoint (projection, stream, seq) VALUES ('inbox', 'INBOX_1', 7), ('other', 'INBOX_2', 9)")
        .await;
    assert_eq!(fixture.store.inbox().positions().await.unwrap(), [("INBOX_1".to_owned(), 7)]);
}
