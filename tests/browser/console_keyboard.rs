//! The console by keys alone: from signing in to an explanation, and the shortcuts.

use serde_json::{Value, json};

use crate::browser::{Browser, Window, demo};
use crate::console::{fill, sign_in_with};

/// Script that returns the text of the element with the focus.
const FOCUSED: &str = "document.activeElement.textContent.trim()";

impl Browser {
    async fn until_heading_is(&mut self, window: &Window, heading: &str) {
        let shown = format!(
            "document.readyState === 'complete' && document.querySelector('h1')?.textContent.trim().startsWith({})",
            json!(heading)
        );
        self.until_true(window, heading, &shown).await;
    }

    async fn focused(&mut self, window: &Window) -> Value {
        self.evaluate(window, FOCUSED).await
    }
}

#[tokio::test]
async fn support_finds_the_cause_by_keys_alone() {
    let (running, _files) = demo().await;
    fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    sign_in_with(&mut browser, &window, &running, async |browser, window| {
        browser.tab_to(window, "main button, form button").await;
        browser.press(window, "Enter").await;
    })
    .await;
    browser.press(&window, "/").await;
    browser.type_text(&window, "ada").await;
    browser.press(&window, "Enter").await;
    browser.until_heading_is(&window, "ada").await;
    browser.tab_to(&window, "main a[href*='/explain']").await;
    browser.press(&window, "Enter").await;
    let explained = "document.readyState === 'complete' && location.pathname.endsWith('/explain')";
    browser.until_true(&window, "the explanation", explained).await;
    let verdict =
        browser.evaluate(&window, "document.querySelector('.answer').textContent.length > 20").await;
    assert_eq!(verdict, true);
}

#[tokio::test]
async fn shortcuts_lead_to_pages_and_rows_and_can_be_switched_off() {
    let (running, _files) = demo().await;
    fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    crate::console::sign_in(&mut browser, &window, &running).await;
    browser.press(&window, "g").await;
    browser.press(&window, "s").await;
    browser.until_heading_is(&window, "Sends").await;
    browser.press(&window, "j").await;
    let first = browser.focused(&window).await;
    browser.press(&window, "j").await;
    let second = browser.focused(&window).await;
    assert_ne!(first, second);
    browser.press(&window, "k").await;
    assert_eq!(browser.focused(&window).await, first);

    browser.press(&window, "?").await;
    browser.until_true(&window, "the list of shortcuts", "document.getElementById('keys').open").await;
    browser.has_no_findings_of_axe(&window).await;
    browser.keep_picture(&window, "shortcuts", (390, "dark")).await;
    browser.evaluate(&window, "document.querySelector('#keys input').click()").await;
    browser.press(&window, "Escape").await;
    browser.until_true(&window, "the list is closed", "!document.getElementById('keys').open").await;
    browser.press(&window, "g").await;
    browser.press(&window, "p").await;
    browser.press(&window, "?").await;
    assert_eq!(browser.evaluate(&window, "document.getElementById('keys').open").await, false);
    assert_eq!(browser.evaluate(&window, "location.pathname").await, "/apps/demo/sends");
}
