//! Pages of an inbox by number and by cursor, with filters and categories.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::service::{App, Backing, Service, titles};

/// Inserts 10,000 items into an inbox, titled with their numbers. Every second item is in the category `orders`, every fourth is
/// read, and every eighth has a state. Read items are seen, and so are two thirds of the others. Other users get items too.
const MANY: &str = r#"
    INSERT INTO category (app_id, identifier, name) SELECT id, 'orders', 'Orders' FROM app;
    INSERT INTO inbox_item (app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, state,
        event_id, content)
    SELECT u.app_id, CASE WHEN n % 5 = 0 THEN u.number ELSE -n % 7 END, n, gen_random_uuid(),
        CASE WHEN n % 2 = 0 THEN c.id END, to_timestamp(1700000000 + n),
        CASE WHEN n % 4 = 0 OR n % 3 > 0 THEN now() END, CASE WHEN n % 4 = 0 THEN now() END,
        CASE WHEN n % 8 = 0 THEN 'done' END, gen_random_uuid(),
        json_build_object('title', (n / 5)::text, 'message', repeat('x', 500), 'icon', null, 'url', null,
                          'data', '{}'::json, 'blocks', '[]'::json)
    FROM app_user u JOIN category c USING (app_id), generate_series(1, 50000) AS n;
    INSERT INTO inbox_counter SELECT app_id, user_number, count(*), count(*) FILTER (WHERE clicked_at IS NULL),
        count(*) FILTER (WHERE seen_at IS NULL)
    FROM inbox_item GROUP BY app_id, user_number"#;

#[tokio::test]
async fn a_list_pages_by_number_and_by_cursor() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 7).await;
    let first = service.list(&shop, "ada", "limit=3").await;
    assert_eq!(titles(&first), ["7", "6", "5"]);
    assert_eq!((&first["unreadCount"], &first["unseenCount"]), (&json!(7), &json!(7)));
    let pagination = &first["pagination"];
    assert_eq!((&pagination["totalCount"], &pagination["pageCount"]), (&json!(7), &json!(3)));
    assert_eq!(titles(&service.list(&shop, "ada", "limit=3&pageNo=3").await), ["1"]);
    assert!(titles(&service.list(&shop, "ada", "limit=3&pageNo=4").await).is_empty());

    let cursor = pagination["nextCursor"].as_str().unwrap().to_owned();
    // A new item shifts all numbered pages. The cursor still continues after the last listed item.
    service.deliver(&shop, "ada", 1).await;
    let second = service.list(&shop, "ada", &format!("limit=3&cursor={cursor}")).await;
    assert_eq!(titles(&second), ["4", "3", "2"]);
    assert_eq!(second["pagination"]["pageNo"], Value::Null);
    let cursor = second["pagination"]["nextCursor"].as_str().unwrap();
    let third = service.list(&shop, "ada", &format!("limit=3&cursor={cursor}")).await;
    assert!(titles(&third).starts_with(&["1"]));
    assert_eq!(third["pagination"]["nextCursor"], Value::Null);
}

#[tokio::test]
async fn every_problem_of_a_query_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let cases: [(&str, &[(&str, &str)]); 12] = [
        ("limit=abc", &[("limit", "invalid_number")]),
        ("limit=0", &[("limit", "invalid_number")]),
        ("limit=21", &[("limit", "invalid_number")]),
        ("limit=", &[("limit", "invalid_number")]),
        ("limit=+5", &[("limit", "invalid_number")]),
        ("limit=5&limit=6", &[("limit", "repeated")]),
        ("pageNo=0&limit=1.5", &[("pageNo", "invalid_number"), ("limit", "invalid_number")]),
        ("pageNo=99999999999999999999", &[("pageNo", "invalid_number")]),
        ("filter=old", &[("filter", "unknown_value")]),
        ("cursor=%21", &[("cursor", "invalid_cursor")]),
        ("cursor=MS4x&pageNo=1", &[("cursor", "conflict")]),
        ("category=%00&filter=%FF", &[("filter", "invalid_character"), ("category", "invalid_character")]),
    ];
    for (query, expected) in cases {
        let answer = service.of(&shop, "ada", &format!("GET /v3/notifications?{query}")).send().await;
        answer.has_problems(expected);
    }
    for query in ["category=&filter=&cursor=", "unknown=1", "&&=&%=%", "limit=20&pageNo=1000000"] {
        service.list(&shop, "ada", query).await;
    }
    let huge = format!("GET /v3/notifications?category={}", "x".repeat(10_000));
    service.of(&shop, "ada", &huge).send().await.is(200);
}

#[tokio::test]
async fn a_cursor_pages_through_the_inbox_while_items_are_added_and_deleted() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 30).await;
    let mut seen = Vec::new();
    let mut query = "limit=4".to_owned();
    loop {
        let page = service.list(&shop, "ada", &query).await;
        seen.extend(titles(&page).into_iter().map(str::to_owned));
        // The item at the cursor is deleted, and new items arrive.
        let last = page["data"].as_array().unwrap().last().unwrap()["id"].as_i64().unwrap();
        service.change(service.of(&shop, "ada", &format!("DELETE /v3/notifications/{last}"))).await;
        service.deliver(&shop, "ada", 1).await;
        match page["pagination"]["nextCursor"].as_str() {
            Some(cursor) => query = format!("limit=4&cursor={cursor}"),
            None => break,
        }
    }
    let expected: Vec<String> = (1..=30).rev().map(|title| title.to_string()).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn filters_and_categories_combine() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.context.store.directory().merge_user(shop.id, "ada", Default::default()).await.unwrap();
    service.run(MANY).await;
    let is_read = |n: i64| (5 * n) % 4 == 0;
    let is_seen = |n: i64| is_read(n) || (5 * n) % 3 > 0;
    let cases: [(&str, &dyn Fn(i64) -> bool); 6] = [
        ("", &|_| true),
        ("read", &is_read),
        ("unread", &|n| !is_read(n)),
        ("seen", &is_seen),
        ("unseen", &|n| !is_seen(n)),
        ("interacted", &|n| (5 * n) % 8 == 0),
    ];
    for (filter, matches) in cases {
        for (category, belongs) in [("", true), ("orders", true), ("unknown", false)] {
            let in_category = |n: i64| category.is_empty() || belongs && (5 * n) % 2 == 0;
            let expected: Vec<i64> = (1..=10_000).rev().filter(|n| matches(*n) && in_category(*n)).collect();
            let pages = expected.len().div_ceil(20).max(1);
            for page in [1, pages.div_ceil(2), pages, pages + 1] {
                let query = format!("filter={filter}&category={category}&limit=20&pageNo={page}");
                let list = service.list(&shop, "ada", &query).await;
                let shown = expected.iter().skip((page - 1) * 20).take(20).map(ToString::to_string);
                assert_eq!(titles(&list), shown.collect::<Vec<_>>(), "{query}");
                assert_eq!(list["pagination"]["totalCount"], expected.len(), "{query}");
                assert_eq!(list["pagination"]["pageCount"], expected.len().div_ceil(20), "{query}");
            }
        }
    }
}

/// Prints how much longer the last page takes than the first. The ratio depends on the machine, so the test does not check it.
#[tokio::test]
async fn the_first_and_the_last_of_500_pages_are_listed() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.context.store.directory().merge_user(shop.id, "ada", Default::default()).await.unwrap();
    service.run(MANY).await;
    service.run("VACUUM ANALYZE inbox_item").await;
    for filter in ["", "filter=unread&", "filter=seen&", "category=orders&"] {
        let (first, list) = median(&service, &shop, &format!("{filter}limit=20&pageNo=1")).await;
        assert_eq!(list["data"].as_array().unwrap().len(), 20);
        let pages = list["pagination"]["pageCount"].as_i64().unwrap();
        let (last, list) = median(&service, &shop, &format!("{filter}limit=20&pageNo={pages}")).await;
        assert_eq!(list["pagination"]["nextCursor"], Value::Null);
        let ratio = last.as_secs_f64() / first.as_secs_f64();
        println!("{filter}page 1: {first:?}, page {pages}: {last:?}, {ratio:.1} times as long");
    }
}

async fn median(service: &Service, app: &App, query: &str) -> (Duration, Value) {
    let mut rounds = Vec::new();
    for _ in 0..21 {
        let begin = Instant::now();
        let list = service.list(app, "ada", query).await;
        rounds.push((begin.elapsed(), list));
    }
    rounds.sort_by_key(|(time, _)| *time);
    rounds.swap_remove(10)
}
