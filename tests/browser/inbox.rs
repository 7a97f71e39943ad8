//! The state of the inbox in several browsers, tabs and pages: the headless client of `clients/client`.

use serde_json::{Value, json};
use testkit::eventually;

use crate::browser::{Browser, SNAPSHOT, SOON, count, demo};
use crate::running::RunningProcess;

/// Number of event streams that the gateway holds.
pub(crate) async fn streams(running: &RunningProcess) -> String {
    let metrics = reqwest::get(running.dev("metrics")).await.unwrap().text().await.unwrap();
    let line =
        metrics.lines().find(|line| line.starts_with("tidings_realtime_connections{transport=\"sse\"}"));
    line.map_or("0", |line| line.rsplit_once(' ').unwrap().1).to_owned()
}

#[tokio::test]
async fn two_browsers_show_a_send_and_its_reading_at_once() {
    let (running, _files) = demo().await;
    let (mut first, mut second) = (Browser::start(&running).await, Browser::start(&running).await);
    let (ada, same) = (first.open("ada").await, second.open("ada").await);
    // The form of the page sends the notification.
    first.evaluate(&ada, "document.querySelector('form').requestSubmit()").await;
    for (browser, window) in [(&mut first, &ada), (&mut second, &same)] {
        let shown = browser.until(window, "the notification arrives", |snapshot| count(snapshot) == 1).await;
        let title = &shown["items"][0]["title"];
        assert_eq!((&shown["unreadCount"], title), (&json!(1), &json!("A table for two is free")));
    }
    let badge = "return root.querySelector('.badge').textContent.trim()";
    assert_eq!(first.in_inbox(&ada, badge).await, "1");
    first.in_inbox(&ada, "root.querySelector('.bell').click()").await;
    first.in_inbox(&ada, "root.querySelector('li.item .toggle').click()").await;
    second.until(&same, "it is read in the other browser", |snapshot| snapshot["unreadCount"] == 0).await;
    let (_, list) = running.get_as("ada", "/notifications").await;
    assert!(list["data"][0]["clickedAt"].is_string());
    second.in_inbox(&same, "root.querySelector('.bell').click()").await;
    second.in_inbox(&same, "root.querySelector('li.item .remove').click()").await;
    first.until(&ada, "it is deleted in the first browser", |snapshot| count(snapshot) == 0).await;
    for (browser, window) in [(&mut first, &ada), (&mut second, &same)] {
        let blocked = browser.evaluate(window, "violations").await;
        assert_eq!(blocked, json!([]), "the content security policy blocks nothing");
    }
}

#[tokio::test]
async fn the_tabs_of_a_browser_share_one_connection_and_take_it_over() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let (first, second) = (browser.open("ada").await, browser.open("ada").await);
    browser.send(&running, &first, "One", 1).await;
    browser.until(&second, "the other tab shows it", |snapshot| count(snapshot) == 1).await;
    eventually(SOON, "there is one stream", async || (streams(&running).await == "1").then_some(())).await;
    // A change that a tab without the connection makes.
    let id = browser.evaluate(&second, &format!("{SNAPSHOT}.items[0].id")).await;
    browser.evaluate(&second, &format!("document.querySelector('tidings-inbox').inbox.read({id})")).await;
    browser.until(&first, "the first tab shows the change", |snapshot| snapshot["unreadCount"] == 0).await;
    browser.chromium.call("Target.closeTarget", json!({"targetId": first.target}), None).await;
    browser.send(&running, &second, "Two", 2).await;
    eventually(SOON, "there is one stream again", async || (streams(&running).await == "1").then_some(()))
        .await;
}

#[tokio::test]
async fn a_refused_change_is_taken_back_and_a_change_without_network_waits_across_a_reload() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    browser.send(&running, &window, "One", 1).await;
    let id = browser.evaluate(&window, &format!("{SNAPSHOT}.items[0].id")).await;
    let read = format!("document.querySelector('tidings-inbox').inbox.read({id})");

    let patterns = json!({"patterns": [{"urlPattern": "*/v3/notifications/*", "requestStage": "Request"}]});
    browser.call(&window, "Fetch.enable", patterns).await;
    browser.evaluate(&window, &read).await;
    browser.until(&window, "the change shows at once", |snapshot| snapshot["unreadCount"] == 0).await;
    let request = loop {
        let is_paused = |event: &Value| event["method"] == "Fetch.requestPaused";
        let paused = browser.chromium.event("the call is paused", is_paused).await["params"].clone();
        if paused["request"]["method"] != "OPTIONS" {
            break paused["requestId"].clone();
        }
        browser.call(&window, "Fetch.continueRequest", json!({"requestId": paused["requestId"]})).await;
    };
    let refusal = json!({
        "requestId": request, "responseCode": 422,
        "responseHeaders": [
            {"name": "Access-Control-Allow-Origin", "value": "*"},
            {"name": "Content-Type", "value": "application/json"},
        ],
        // {"status":"error","message":"no","code":"refused"}
        "body": "eyJzdGF0dXMiOiJlcnJvciIsIm1lc3NhZ2UiOiJubyIsImNvZGUiOiJyZWZ1c2VkIn0=",
    });
    browser.call(&window, "Fetch.fulfillRequest", refusal).await;
    let back =
        browser.until(&window, "the change is taken back", |snapshot| snapshot["unreadCount"] == 1).await;
    assert_eq!(back["error"]["status"], 422, "{back}");
    browser.call(&window, "Fetch.disable", json!({})).await;

    browser.call(&window, "Network.enable", json!({})).await;
    browser.call(&window, "Network.setBlockedURLs", json!({"urls": ["*/v3/*"]})).await;
    browser.evaluate(&window, &read).await;
    browser.until(&window, "the change shows at once", |snapshot| snapshot["unreadCount"] == 0).await;
    // The first of these events is from the opening of the page, the second from the reload.
    let is_new_page = |event: &Value| {
        let url = event["params"]["frame"]["url"].as_str().unwrap_or_default();
        event["method"] == "Page.frameNavigated" && url.starts_with("http:")
    };
    browser.chromium.event("the page was opened", is_new_page).await;
    browser.call(&window, "Page.reload", json!({})).await;
    browser.chromium.event("the page is loaded again", is_new_page).await;
    browser.until(&window, "the inbox exists again", |snapshot| !snapshot.is_null()).await;
    let (_, list) = running.get_as("ada", "/notifications").await;
    assert_eq!(list["unreadCount"], 1, "nothing was sent");
    browser.call(&window, "Network.setBlockedURLs", json!({"urls": []})).await;
    browser.evaluate(&window, "dispatchEvent(new Event('online'))").await;
    eventually(SOON, "the change is sent", async || {
        let (_, list) = running.get_as("ada", "/notifications").await;
        (list["unreadCount"] == 0).then_some(())
    })
    .await;
}
