//! Every address that `tidings up` prints, and the pages of the outbox, on a desk and a phone, light and dark.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::eventually;
use tokio::process::Command;

use crate::browser::{Browser, SOON, VIEWS, Window, demo};
use crate::running::RunningProcess;

/// If set, the test writes screenshots to `docs/images`.
const WRITE: &str = "TIDINGS_TEST_WRITE_IMAGES";
/// Script that returns the findings of axe. Frames with captured content cannot run it.
const AXE: &str = "axe.run({iframes: false}).then(({violations}) =>
    violations.map(({id, nodes}) => [id, nodes[0].html, nodes[0].failureSummary].join(': ')))";
/// Script that returns true if the page is wider than its window.
const OVERFLOWS: &str = "document.documentElement.scrollWidth > innerWidth";

#[tokio::test]
async fn printed_addresses_answer_with_pages_that_axe_accepts() {
    let (running, files) = demo().await;
    send(files.path()).await;
    let mut browser = Browser::start(&running).await;
    let axe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(axe).expect("run `cargo xtask test --test browser` once");
    let mut pages = printed(&running);
    assert!(pages.len() >= 6, "{pages:?}");
    pages.extend(messages(&running).await);
    let mut found = Vec::new();
    for (name, url) in &pages {
        let window = browser.open_page(url).await;
        browser.evaluate(&window, &format!("{axe}; true")).await;
        for (width, scheme) in VIEWS {
            browser.look(&window, (width, scheme)).await;
            let findings = browser.evaluate(&window, AXE).await;
            let is_wide = browser.evaluate(&window, OVERFLOWS).await;
            if findings != json!([]) || is_wide != false {
                found.push(format!("{url}, {width} px, {scheme}, too wide: {is_wide}: {findings:#}"));
            }
            if std::env::var_os(WRITE).is_some() {
                let size = if width > 600 { "desk" } else { "phone" };
                browser.write_image(&window, &format!("{name}-{size}-{scheme}.png")).await;
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the addresses in the greeting of `tidings up`, each with a name for its images.
fn printed(running: &RunningProcess) -> Vec<(String, String)> {
    let log = running.log();
    let greeting = log.split("Tidings is running.").nth(1).unwrap().split("Try it").next().unwrap();
    let lines = greeting.lines().filter_map(|line| {
        let (name, rest) = line.split_once("http://")?;
        let url = format!("http://{}", rest.split_whitespace().next()?);
        Some((name.trim().to_lowercase().replace(' ', "-"), url))
    });
    lines.collect()
}

/// Returns one page of the outbox for each channel.
async fn messages(running: &RunningProcess) -> Vec<(String, String)> {
    let outbox = running.dev("outbox");
    let listed: Value = reqwest::get(format!("{outbox}/messages")).await.unwrap().json().await.unwrap();
    let mut pages = Vec::new();
    for channel in ["email", "sms", "webPush", "mobilePush"] {
        let message = listed["data"].as_array().unwrap().iter().find(|message| message["channel"] == channel);
        let id = message.unwrap_or_else(|| panic!("no {channel} in {listed}"))["id"].as_str().unwrap();
        pages.push((format!("outbox-{}", channel.to_lowercase()), format!("{outbox}/messages/{id}")));
    }
    pages
}

/// Sends to every channel with the command that `tidings up` prints.
async fn send(files: &Path) {
    let program = testkit::binary("tidings");
    let data = files.join("data");
    let sent = Command::new(program).args(["demo", "send", "--data-dir"]).arg(data).output().await.unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
}

impl Browser {
    /// Opens a page in a new window, and waits until it is loaded.
    async fn open_page(&mut self, url: &str) -> Window {
        let window = self.open_blank().await;
        self.call(&window, "Page.enable", json!({})).await;
        self.call(&window, "Page.navigate", json!({"url": url})).await;
        let chromium = &mut self.chromium;
        eventually(SOON, "the page is loaded", async || {
            let script = "document.readyState === 'complete' && location.href !== 'about:blank'";
            (chromium.evaluate(&window.session, script).await == true).then_some(())
        })
        .await;
        window
    }

    async fn write_image(&mut self, window: &Window, name: &str) {
        let shot = self.call(window, "Page.captureScreenshot", json!({"format": "png"})).await;
        let image = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
        std::fs::write(images.join(name), image).unwrap();
    }
}
