//! Refused calls of apps.

use std::time::Duration;

use domain::{AppId, Timestamp};
use store::control::refused_call::RefusedCall;

use crate::{Fixture, fixture};

fn call(app: AppId, client: &str, proven: bool) -> RefusedCall {
    RefusedCall {
        app,
        status: 400,
        method: "POST".to_owned(),
        route: "/v3/notifications".to_owned(),
        code: "required".to_owned(),
        fields: vec!["title".to_owned(), "recipients[0]".to_owned()],
        api_key: "pk_12345".to_owned(),
        client: client.to_owned(),
        proven,
    }
}

/// Adds a number of rows of one client, a second apart from each other.
async fn add(fixture: &Fixture, app: AppId, client: &str, proven: bool, number: i64) {
    let calls: Vec<_> = (0..number)
        .map(|second| (call(app, client, proven), 1, Timestamp::from_millis(second * 1_000)))
        .collect();
    fixture.store.control().add_refused_calls(&calls).await.unwrap();
}

/// Returns the number of rows of each client, in order of its name.
async fn kept(fixture: &Fixture, app: AppId) -> Vec<(String, usize)> {
    let mut numbers = std::collections::BTreeMap::new();
    for row in fixture.store.control().refused_calls(app, 1_000).await.unwrap() {
        *numbers.entry(row.call.client).or_insert(0) += 1;
    }
    numbers.into_iter().collect()
}

#[tokio::test]
async fn calls_of_an_app_are_listed_latest_first() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let control = fixture.store.control();
    let (early, late) =
        (call(shop, "192.0.2.x", true), RefusedCall { fields: Vec::new(), ..call(shop, "a", false) });
    let at = Timestamp::from_millis;
    let calls =
        [(late.clone(), 7, at(2_000)), (call(bank, "b", true), 1, at(3_000)), (early.clone(), 1, at(1_000))];
    control.add_refused_calls(&calls).await.unwrap();
    let listed = control.refused_calls(shop, 10).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|row| (row.call, row.times, row.at)).collect();
    assert_eq!(listed, [(late, 7, at(2_000)), (early, 1, at(1_000))]);
    assert_eq!(control.refused_calls(bank, 10).await.unwrap().len(), 1);
    assert_eq!(control.refused_calls(shop, 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_flood_of_one_client_or_of_strangers_leaves_the_rows_of_others() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let control = fixture.store.control();
    add(&fixture, shop, "backend", true, 30).await;
    for stranger in 0..50 {
        add(&fixture, shop, &format!("stranger {stranger:02}"), false, 3).await;
    }
    add(&fixture, shop, "flood", false, 200).await;
    add(&fixture, bank, "backend", true, 20).await;
    assert_eq!(control.apps_with_surplus_refused_calls(100).await.unwrap(), [shop]);
    assert_eq!(control.remove_surplus_refused_calls(shop, 100).await.unwrap(), 280);
    let rows = kept(&fixture, shop).await;
    assert_eq!(rows[0], ("backend".to_owned(), 30), "proven callers use less than their half");
    assert_eq!(rows[1], ("flood".to_owned(), 2), "{rows:?}");
    assert_eq!(rows.len(), 52, "each of the 51 strangers keeps rows: {rows:?}");
    assert_eq!(kept(&fixture, bank).await, [("backend".to_owned(), 20)]);
    assert_eq!(control.apps_with_surplus_refused_calls(100).await.unwrap(), []);
    assert_eq!(control.remove_surplus_refused_calls(shop, 100).await.unwrap(), 0);
}

#[tokio::test]
async fn one_client_keeps_its_latest_rows_up_to_the_limit() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    add(&fixture, shop, "backend", true, 30).await;
    assert_eq!(fixture.store.control().remove_surplus_refused_calls(shop, 10).await.unwrap(), 20);
    let left = fixture.store.control().refused_calls(shop, 100).await.unwrap();
    let seconds: Vec<_> = left.iter().map(|row| row.at.millis() / 1_000).collect();
    assert_eq!(seconds, (20..30).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn old_rows_are_removed() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    add(&fixture, shop, "backend", true, 3).await;
    sqlx::query("UPDATE refused_call SET at = now() WHERE id = (SELECT max(id) FROM refused_call)")
        .execute(&fixture.pool)
        .await
        .unwrap();
    let control = fixture.store.control();
    let day = Duration::from_secs(86_400);
    let removed =
        [control.remove_old_refused_calls(day, 1).await, control.remove_old_refused_calls(day, 5).await];
    assert_eq!(removed.map(Result::unwrap), [1, 1]);
    assert_eq!(kept(&fixture, shop).await, [("backend".to_owned(), 1)]);
}
