//! A browser with windows that show the demo page of `tidings up`.

use std::path::Path;
use std::time::Duration;

use base64::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::eventually;

use crate::chromium::Chromium;
use crate::running::RunningProcess;

pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Script that every page runs before its own: collects what the content security policy blocks.
const WATCH: &str = "window.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.blockedURI));";
pub(crate) const SNAPSHOT: &str = "(() => { const inbox = document.querySelector('tidings-inbox')?.inbox; \
    return inbox ? inbox.getSnapshot() : null; })()";

/// Script that returns the findings of axe. It first waits for animations, which change the contrast of texts.
const AXE: &str = "Promise.all((document.querySelector('tidings-inbox')?.shadowRoot ?? document).getAnimations().map(({finished}) => finished))
    .then(() => axe.run())
    .then(({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html, nodes[0].failureSummary].join(': ')))";

/// Width of a window in pixels, and colour scheme of the system.
pub(crate) type View = (u32, &'static str);
/// The views in which pictures and axe check the inbox.
pub(crate) const VIEWS: [View; 4] = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")];

/// A browser, and the address of the demo page.
pub(crate) struct Browser {
    pub(crate) chromium: Chromium,
    pub(crate) shop: String,
}

/// A window of the browser.
pub(crate) struct Window {
    pub(crate) target: String,
    pub(crate) session: String,
}

/// Starts `tidings up` with new data.
pub(crate) async fn demo() -> (RunningProcess, TempDir) {
    let files = tempfile::Builder::new().prefix("tidings-browser-").tempdir().unwrap();
    let running = RunningProcess::start(&files.path().join("data")).await;
    (running, files)
}

impl Browser {
    pub(crate) async fn start(running: &RunningProcess) -> Browser {
        Browser { chromium: Chromium::start().await, shop: running.dev("shop").to_owned() }
    }

    /// Opens an empty page.
    pub(crate) async fn open_blank(&mut self) -> Window {
        let blank = json!({"url": "about:blank"});
        let target = self.chromium.call("Target.createTarget", blank, None).await["targetId"].clone();
        let target = target.as_str().unwrap().to_owned();
        let session = self.chromium.attach(&target).await;
        Window { target, session }
    }

    /// Opens the shop as a user, and waits until the inbox is live.
    pub(crate) async fn open(&mut self, user: &str) -> Window {
        let url = format!("{}/?user={user}", self.shop);
        let window = self.open_url(&url).await;
        self.until(&window, "the inbox is live", |snapshot| {
            snapshot["connection"] == "live" && snapshot["loaded"] == true
        })
        .await;
        window
    }

    /// Opens any page.
    pub(crate) async fn open_url(&mut self, url: &str) -> Window {
        let window = self.open_blank().await;
        self.call(&window, "Page.enable", json!({})).await;
        self.call(&window, "Network.enable", json!({})).await;
        self.call(&window, "Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH})).await;
        self.call(&window, "Page.navigate", json!({"url": url})).await;
        window
    }

    pub(crate) async fn call(&mut self, window: &Window, method: &str, params: Value) -> Value {
        self.chromium.call(method, params, Some(&window.session)).await
    }

    pub(crate) async fn evaluate(&mut self, window: &Window, script: &str) -> Value {
        self.chromium.evaluate(&window.session, script).await
    }

    /// Waits until the snapshot of the window's inbox fulfils a condition, and returns it.
    pub(crate) async fn until(
        &mut self,
        window: &Window,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let chromium = &mut self.chromium;
        eventually(SOON, what, async || {
            let snapshot = chromium.evaluate(&window.session, SNAPSHOT).await;
            holds(&snapshot).then_some(snapshot)
        })
        .await
    }

    /// Waits until a script returns true.
    pub(crate) async fn until_true(&mut self, window: &Window, what: &str, script: &str) {
        let chromium = &mut self.chromium;
        eventually(SOON, what, async || {
            (chromium.evaluate(&window.session, script).await == true).then_some(())
        })
        .await;
    }

    /// Sends a notification by the API, and waits until the window has this number of items.
    pub(crate) async fn send(
        &mut self,
        running: &RunningProcess,
        window: &Window,
        title: &str,
        items: usize,
    ) {
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
    pub(crate) async fn in_inbox(&mut self, window: &Window, script: &str) -> Value {
        let script = format!(
            "(() => {{ const root = document.querySelector('tidings-inbox').shadowRoot; {script} }})()"
        );
        self.evaluate(window, &script).await
    }

    /// Shows the page with a width in pixels, and with a colour scheme. From the first narrow one on, the window has a
    /// touch screen instead of a mouse.
    pub(crate) async fn look(&mut self, window: &Window, (width, scheme): View) {
        let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        self.call(window, "Emulation.setDeviceMetricsOverride", size).await;
        if width < 500 {
            // Turning this off again would not bring back the mouse.
            self.call(window, "Emulation.setTouchEmulationEnabled", json!({"enabled": true})).await;
        }
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call(window, "Emulation.setEmulatedMedia", media).await;
    }

    /// Takes a screenshot, and keeps it in `target/tmp/looks` for a reader. Returns it in base64.
    pub(crate) async fn keep_picture(
        &mut self,
        window: &Window,
        name: &str,
        (width, scheme): View,
    ) -> String {
        let picture = self.call(window, "Page.captureScreenshot", json!({"format": "png"})).await;
        let picture = picture["data"].as_str().unwrap().to_owned();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("looks");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}-{width}-{scheme}.png"));
        std::fs::write(file, BASE64_STANDARD.decode(&picture).unwrap()).unwrap();
        picture
    }

    /// Checks the page with axe, light and dark, wide and narrow.
    pub(crate) async fn has_no_findings_of_axe(&mut self, window: &Window) {
        self.load_axe(window).await;
        for view in VIEWS {
            self.look(window, view).await;
            assert_eq!(self.evaluate(window, AXE).await, json!([]), "{view:?}");
        }
    }

    pub(crate) async fn load_axe(&mut self, window: &Window) {
        let axe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node/node_modules/axe-core/axe.min.js");
        let axe = std::fs::read_to_string(axe).expect("run `cargo xtask test --test browser` once");
        self.evaluate(window, &format!("{axe}; true")).await;
    }

    pub(crate) async fn press(&mut self, window: &Window, key: &str) {
        let code = match key {
            "Enter" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 13, "text": "\r"}),
            "Tab" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 9}),
            "Escape" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 27}),
            "Delete" => json!({"key": key, "code": key, "windowsVirtualKeyCode": 46}),
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

/// Returns the number of items in a snapshot.
pub(crate) fn count(snapshot: &Value) -> usize {
    snapshot["items"].as_array().map_or(0, Vec::len)
}
