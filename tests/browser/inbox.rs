//! The inbox of `clients/inbox` in Chromium, on the demo page of `tidings up`.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::eventually;

use crate::chromium::Chromium;
use crate::running::RunningProcess;

const SOON: Duration = Duration::from_secs(30);
/// Script that every page runs before its own: collects what the content security policy blocks.
const WATCH: &str = "window.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.blockedURI));";
const SNAPSHOT: &str = "(() => { const inbox = document.querySelector('tidings-inbox')?.inbox; \
    return inbox ? inbox.getSnapshot() : null; })()";

/// A browser, and the address of the demo page.
struct Browser {
    chromium: Chromium,
    shop: String,
}

/// A window of the browser.
struct Window {
    target: String,
    session: String,
}

/// Starts `tidings up` with new data.
async fn demo() -> (RunningProcess, TempDir) {
    let files = tempfile::Builder::new().prefix("tidings-browser-").tempdir().unwrap();
    let running = RunningProcess::start(&files.path().join("data")).await;
    (running, files)
}

impl Browser {
    async fn start(running: &RunningProcess) -> Browser {
        Browser { chromium: Chromium::start().await, shop: running.dev("shop").to_owned() }
    }

    /// Opens the shop as a user, and waits until the inbox is live.
    async fn open(&mut self, user: &str) -> Window {
        let blank = json!({"url": "about:blank"});
        let target = self.chromium.call("Target.createTarget", blank, None).await["targetId"].clone();
        let target = target.as_str().unwrap().to_owned();
        let session = self.chromium.attach(&target).await;
        let window = Window { target, session };
        self.call(&window, "Page.enable", json!({})).await;
        self.call(&window, "Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH})).await;
        let url = format!("{}/?user={user}", self.shop);
        self.call(&window, "Page.navigate", json!({"url": url})).await;
        self.until(&window, "the inbox is live", |snapshot| {
            snapshot["connection"] == "live" && snapshot["loaded"] == true
        })
        .await;
        window
    }

    async fn call(&mut self, window: &Window, method: &str, params: Value) -> Value {
        self.chromium.call(method, params, Some(&window.session)).await
    }

    async fn evaluate(&mut self, window: &Window, script: &str) -> Value {
        self.chromium.evaluate(&window.session, script).await
    }

    /// Waits until the snapshot of the window's inbox fulfils a condition, and returns it.
    async fn until(&mut self, window: &Window, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let chromium = &mut self.chromium;
        eventually(SOON, what, async || {
            let snapshot = chromium.evaluate(&window.session, SNAPSHOT).await;
            holds(&snapshot).then_some(snapshot)
        })
        .await
    }

    /// Waits until a script returns true.
    async fn until_true(&mut self, window: &Window, what: &str, script: &str) {
        let chromium = &mut self.chromium;
        eventually(SOON, what, async || {
            (chromium.evaluate(&window.session, script).await == true).then_some(())
        })
        .await;
    }

    /// Sends a notification by the API, and waits until the window has this number of items.
    async fn send(&mut self, running: &RunningProcess, window: &Window, title: &str, items: usize) {
        let send = json!({
            "notification": {"title": title, "message": "Hello"},
            "override": {"channels": ["inApp"]},
            "sendTo": {"recipients": ["ada"]},
        });
        let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
        assert_eq!(status, 202, "{sent}");
        self.until(window, "the notification arrives", |snapshot| count(snapshot) == items).await;
    }

    /// Runs a script with `root`, the shadow root of the inbox.
    async fn in_inbox(&mut self, window: &Window, script: &str) -> Value {
        let script = format!(
            "(() => {{ const root = document.querySelector('tidings-inbox').shadowRoot; {script} }})()"
        );
        self.evaluate(window, &script).await
    }

    async fn press(&mut self, window: &Window, key: &str) {
        let code = match key {
            "Enter" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 13, "text": "\r"}),
            "Tab" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 9}),
            "Escape" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 27}),
            "ArrowDown" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 40}),
            letter => json!({"key": letter, "code": format!("Key{}", letter.to_uppercase()), "text": letter}),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = code.clone();
            event["type"] = json!(kind);
            self.call(window, "Input.dispatchKeyEvent", event).await;
        }
    }
}

/// Number of event streams that the gateway holds.
async fn streams(running: &RunningProcess) -> String {
    let metrics = reqwest::get(running.dev("metrics")).await.unwrap().text().await.unwrap();
    let line =
        metrics.lines().find(|line| line.starts_with("tidings_realtime_connections{transport=\"sse\"}"));
    line.map_or("0", |line| line.rsplit_once(' ').unwrap().1).to_owned()
}

fn count(snapshot: &Value) -> usize {
    snapshot["items"].as_array().map_or(0, Vec::len)
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
    browser.call(&window, "Page.reload", json!({})).await;
    browser.until(&window, "the page is loaded again", |snapshot| !snapshot.is_null()).await;
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

#[tokio::test]
async fn the_inbox_is_usable_by_keyboard_and_axe_finds_nothing() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    for (number, title) in (1..).zip(["One", "Two", "Three"]) {
        browser.send(&running, &window, title, number).await;
    }
    let bell = "document.querySelector('tidings-inbox').shadowRoot.querySelector('.bell')";
    assert_eq!(browser.evaluate(&window, &format!("{bell}.getAttribute('aria-expanded')")).await, "false");
    let label = browser.evaluate(&window, &format!("{bell}.getAttribute('aria-label')")).await;
    assert_eq!(label, "Notifications, 3 unread");
    browser.evaluate(&window, &format!("{bell}.focus()")).await;
    browser.press(&window, "Enter").await;
    browser
        .until_true(&window, "the panel opens", &format!("{bell}.getAttribute('aria-expanded') === 'true'"))
        .await;
    let focused = "document.querySelector('tidings-inbox').shadowRoot.activeElement";
    let items = "return root.querySelectorAll('li.item').length";
    eventually(SOON, "the panel shows the list", async || {
        (browser.in_inbox(&window, items).await == 3).then_some(())
    })
    .await;
    for title in ["Three", "Two"] {
        browser.press(&window, "ArrowDown").await;
        let has_focus =
            format!("{focused}?.closest('li.item')?.querySelector('.title').textContent === '{title}'");
        browser.until_true(&window, "the next item has the focus", &has_focus).await;
    }
    browser.press(&window, "r").await;
    browser.until(&window, "the item is read", |snapshot| snapshot["unreadCount"] == 2).await;

    let axe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(axe).expect("run `cargo xtask test --test browser` once");
    browser.evaluate(&window, &format!("{axe}; true")).await;
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        browser.call(&window, "Emulation.setDeviceMetricsOverride", size).await;
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call(&window, "Emulation.setEmulatedMedia", media).await;
        let found =
            "axe.run().then(({violations}) => violations.map(({id, nodes}) => id + ': ' + nodes[0].html))";
        assert_eq!(browser.evaluate(&window, found).await, json!([]), "{width} px, {scheme}");
    }
    browser.press(&window, "Escape").await;
    browser.until_true(&window, "the bell has the focus again", &format!("{focused} === {bell}")).await;
}
