//! Emails of sends without a template, in Chromium.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::browser::{Browser, View};
use crate::chromium::Chromium;

/// A mail program and a phone.
const VIEWS: [View; 4] = [(640, "light"), (640, "dark"), (375, "light"), (375, "dark")];
/// The page has no landmarks: they belong to the mail program around it.
const AXE: &str = "axe.run({rules: {'landmark-one-main': {enabled: false}, region: {enabled: false}}})
    .then(({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html, nodes[0].failureSummary].join(': ')))";
/// Script that returns the surplus width, the lowest margin of a text to the left or right edge, and the colour of the page.
const LOOK: &str = "(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    const texts = [...document.querySelectorAll('h1, p, a, img')].map((text) => text.getBoundingClientRect());
    const margins = texts.map(({ left, right }) => Math.min(left, clientWidth - right));
    return [scrollWidth - clientWidth, Math.min(...margins) >= 20, getComputedStyle(document.body).backgroundColor];
})()";

#[tokio::test]
async fn emails_fit_their_window_and_axe_finds_nothing() {
    let mut browser = Browser { chromium: Chromium::start().await, shop: String::new() };
    let window = browser.open_blank().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libs/domain/tests/domain/email_layout");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let pages: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "html")).collect();
    assert!(pages.len() >= 7, "{pages:?}");
    for page in pages {
        let html = json!(fs::read_to_string(&page).unwrap());
        let write = format!("document.open(); document.write({html}); document.close(); true");
        browser.evaluate(&window, &write).await;
        browser.load_axe(&window).await;
        for (width, scheme) in VIEWS {
            browser.look(&window, (width, scheme)).await;
            let color = if scheme == "dark" { "rgb(17, 17, 19)" } else { "rgb(255, 255, 255)" };
            let look = browser.evaluate(&window, LOOK).await;
            assert_eq!(look, json!([0, true, color]), "{} {width} {scheme}", page.display());
            let findings = browser.evaluate(&window, AXE).await;
            assert_eq!(findings, json!([]), "{} {width} {scheme}", page.display());
        }
    }
}
