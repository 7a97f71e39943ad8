//! The React wrapper with each version of React that it supports: rendered by a server, taken over by the browser, and unmounted.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::json;
use testkit::eventually;

use crate::browser::{SOON, demo};
use crate::inbox::streams;
use crate::page::Page;
use crate::running::RunningProcess;

const SHOWN: &str = "<button id=\"count\">0 unread</button><tidings-inbox class=\"side\" placement=\"inline\"></tidings-inbox>";

/// Bundles `react.js` with a version of React. Returns the path of the bundle.
fn bundle(react: &str, react_dom: &str, platform: &str) -> PathBuf {
    let node = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node").canonicalize();
    let node = node.expect("run `cargo xtask test --test browser` once");
    let bundle = node.join(format!("{react}-{platform}.cjs"));
    let bundled = Command::new(node.join("node_modules/.bin/esbuild"))
        .args(["react.js", "--bundle", "--format=iife", "--log-level=warning"])
        .args([format!("--platform={platform}"), format!("--outfile={}", bundle.display())])
        .args([format!("--alias:react={react}"), format!("--alias:react-dom={react_dom}")])
        .env("NODE_PATH", node.join("node_modules"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("browser"))
        .output()
        .unwrap();
    assert!(bundled.status.success(), "{}", String::from_utf8_lossy(&bundled.stderr));
    bundle
}

async fn is_rendered_hydrated_and_unmounted(running: &RunningProcess, react: &str, react_dom: &str) {
    let rendered = Command::new("node").arg(bundle(react, react_dom, "node")).output().unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let html = String::from_utf8(rendered.stdout).unwrap();
    assert_eq!(html.trim(), SHOWN, "{react}");

    let mut page = Page::open("/tidings-service-worker.js").await;
    let script = std::fs::read_to_string(bundle(react, react_dom, "browser")).unwrap();
    page.evaluate(&script).await;
    let options = json!({"url": running.dev("api"), "apiKey": running.dev("apiKey"), "user": react});
    assert_eq!(page.evaluate(&format!("show({}, {options})", json!(html.trim()))).await, true);
    page.until_true(
        "the inbox is live",
        "document.querySelector('tidings-inbox').inbox?.getSnapshot().connection === 'live'",
    )
    .await;
    let send = json!({
        "notification": {"title": "Hello"}, "override": {"channels": ["inApp"]}, "sendTo": {"recipients": [react]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");
    let counts = |text: &str| format!("document.querySelector('#count').textContent === '{text}'");
    page.until_true("the hook counts the notification", &counts("1 unread")).await;
    let title = "document.querySelector('tidings-inbox').shadowRoot.querySelector('li.item a.open')";
    page.until_true("the element shows it", &format!("{title} !== null")).await;
    page.evaluate(&format!("{title}.click()")).await;
    assert_eq!(page.evaluate("opened").await, json!(["Hello"]), "{react}");
    page.evaluate("document.querySelector('#count').click()").await;
    page.until_true("the hook counts its reading", &counts("0 unread")).await;
    assert_eq!(page.evaluate("problems").await, json!([]), "{react}");
    page.evaluate("root.unmount()").await;
    eventually(SOON, "the stream is closed", async || (streams(running).await == "0").then_some(())).await;
}

#[tokio::test]
async fn the_wrapper_works_with_react_18_and_19() {
    let (running, _files) = demo().await;
    for (react, react_dom) in [("react", "react-dom"), ("react-18", "react-dom-18")] {
        is_rendered_hydrated_and_unmounted(&running, react, react_dom).await;
    }
}
