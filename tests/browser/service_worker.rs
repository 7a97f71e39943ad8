//! The service worker's reaction to valid and invalid messages.

use serde_json::{Value, json};

use crate::page::Page;

#[tokio::test]
async fn a_message_is_shown_once_with_its_content() {
    let mut page = Page::open("/tidings-service-worker.js").await;
    let message = json!({
        "title": "Hello", "body": "Your parcel", "icon": "/icon.png", "data": {"n": [1]}, "deliveryId": "d1",
    });
    page.push(&message.to_string()).await;
    let icon = format!("{}/icon.png", page.origin);
    let shown = json!({"title": "Hello", "body": "Your parcel", "icon": icon, "tag": "d1", "data": message});
    assert_eq!(page.notifications().await, [shown]);
    // A message with the same delivery id replaces the notification. A message without a title is displayed too, because browsers
    // require a notification for every push.
    page.push(&json!({"title": "Hello again", "deliveryId": "d1"}).to_string()).await;
    page.push("no JSON").await;
    page.push("7").await;
    page.push(
        &json!({"title": 7, "body": ["x"], "icon": "javascript:alert(1)", "deliveryId": "d2"}).to_string(),
    )
    .await;
    let mut shown = page.notifications().await;
    shown.sort_by_key(|shown| shown["tag"].to_string());
    let titles: Vec<_> = shown.iter().map(|shown| shown["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["New notification", "New notification", "Hello again", "New notification"]);
    assert_eq!((&shown[3]["body"], &shown[3]["icon"]), (&json!(""), &json!("")));
}

#[tokio::test]
async fn a_click_opens_only_web_addresses_and_reuses_a_window_that_shows_one() {
    let mut page = Page::open("/tidings-service-worker.js").await;
    let origin = page.origin.clone();
    let here = format!("{origin}/");
    let cases: [(Value, Value); 8] = [
        (json!("https://shop.example/a?b#c"), json!(["https://shop.example/a?b#c"])),
        (json!("http://shop.example"), json!(["http://shop.example/"])),
        (json!("/parcels/7"), json!([format!("{origin}/parcels/7")])),
        (json!("javascript:alert(1)"), json!([])),
        (json!("data:text/html,x"), json!([])),
        (json!("http://"), json!([])),
        (json!(7), json!([])),
        (Value::Null, json!([])),
    ];
    for (number, (url, opened)) in cases.into_iter().enumerate() {
        let tag = format!("d{number}");
        page.push(&json!({"title": "t", "url": url, "deliveryId": tag}).to_string()).await;
        assert_eq!(page.click(&tag).await, json!({"opened": opened, "focused": [], "left": 0}), "{url}");
    }
    page.push(&json!({"title": "t", "url": "/", "deliveryId": "here"}).to_string()).await;
    assert_eq!(page.click("here").await, json!({"opened": [], "focused": [here], "left": 0}));
}

#[tokio::test]
async fn a_click_is_reported_even_if_its_link_cannot_be_opened() {
    let mut page = Page::open("/tidings-service-worker.js").await;
    for (number, (url, click_url, reports)) in [
        (json!("/a"), json!(format!("{}/click/a", page.origin)), 1),
        (json!("javascript:alert(1)"), json!(format!("{}/click/b", page.origin)), 2),
        (Value::Null, json!("javascript:alert(1)"), 2),
        // No server listens at this address. The worker must still handle the click.
        (json!("/a"), json!("http://127.0.0.1:1/click"), 2),
    ]
    .into_iter()
    .enumerate()
    {
        let tag = format!("d{number}");
        page.push(&json!({"title": "t", "url": url, "clickUrl": click_url, "deliveryId": tag}).to_string())
            .await;
        assert_eq!(page.click(&tag).await["left"], 0, "{click_url}");
        assert_eq!(page.clicks(), reports, "{click_url}");
    }
}
