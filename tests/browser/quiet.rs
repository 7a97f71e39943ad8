//! Web pushes that are still shown when their notification was read or deleted elsewhere.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::browser::{SOON, demo};
use crate::page::Page;

/// Script that starts the headless client in the page, and waits until it is live.
const START: &str =
    "import('API/clients/client/index.js').then(({ createInbox }) => new Promise((resolve) => {
    const inbox = createInbox({
      url: 'API', apiKey: 'KEY', user: 'ada', serviceWorker: '/tidings-service-worker.js',
    });
    inbox.subscribe(() => {
      const { connection, loaded } = inbox.getSnapshot();
      if (connection === 'live' && loaded) resolve(true);
    });
    inbox.start();
    window.inbox = inbox;
  }))";

#[tokio::test]
async fn an_open_page_closes_the_web_push_of_a_notification_that_was_read_or_deleted_elsewhere() {
    let (running, _files) = demo().await;
    let mut page = Page::open("/tidings-service-worker.js").await;
    let start = START.replace("API", running.dev("api")).replace("KEY", running.dev("apiKey"));
    assert_eq!(page.evaluate(&start).await, true);
    for title in ["One", "Two", "Three"] {
        let send = json!({
            "notification": {"title": title}, "override": {"channels": ["inApp"]}, "sendTo": {"recipients": ["ada"]},
        });
        let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
        assert_eq!(status, 202, "{sent}");
        let message = json!({"title": title, "deliveryId": title, "requestId": sent["requestId"]});
        page.push(&message.to_string()).await;
    }
    let shows = |count: usize| format!("inbox.getSnapshot().items.length === {count}");
    page.until_true("all have arrived", &shows(3)).await;
    assert_eq!(tags(&mut page).await, ["One", "Three", "Two"]);

    let (_, list) = running.get_as("ada", "/notifications").await;
    let id = |title: &str| {
        let item = list["data"].as_array().unwrap().iter().find(|item| item["title"] == title);
        item.unwrap()["id"].clone()
    };
    let (status, read) = running.post_as("ada", &format!("/notifications/{}/reads", id("Two"))).await;
    assert!(is_stored(status), "{status}: {read}");
    closes(&mut page, &["One", "Three"]).await;
    let deleted = json!({"ids": [id("One")], "change": "deleted"});
    let call = running.request(Method::POST, "/notifications/bulk").header("X-SERVICE-USER-ID", "ada");
    let status = call.json(&deleted).send().await.unwrap().status();
    assert!(is_stored(status.as_u16()), "{status}");
    closes(&mut page, &["Three"]).await;

    // The items of a list have no request id.
    page.evaluate("inbox.stop()").await;
    assert_eq!(page.evaluate(&start).await, true);
    page.until_true("the list is loaded", &shows(2)).await;
    let (status, read) = running.post_as("ada", "/notifications/markAllNotificationsAsRead").await;
    assert!(is_stored(status), "{status}: {read}");
    closes(&mut page, &[]).await;
}

/// Returns true for the answers to a stored change. With 202, lists do not show the change yet.
fn is_stored(status: u16) -> bool {
    matches!(status, 200 | 202)
}

/// Waits until exactly these web pushes are shown.
async fn closes(page: &mut Page, left: &[&str]) {
    eventually(SOON, "the web push is closed", async || (tags(page).await == left).then_some(())).await;
}

/// Returns the tags of the web pushes that are shown, in alphabetical order.
async fn tags(page: &mut Page) -> Vec<String> {
    let shown = page.notifications().await;
    let mut tags: Vec<_> =
        shown.iter().filter_map(|shown: &Value| shown["tag"].as_str()).map(str::to_owned).collect();
    tags.sort();
    tags
}
