//! Settings, secrets and tokens in the console, by clicks alone, with and without scripts.

use serde_json::json;

use crate::browser::{Browser, Window, demo};
use crate::console::{press, sign_in, until_done, until_heading};

/// Follows the link of the tabs with this text.
async fn open_tab(browser: &mut Browser, window: &Window, text: &str) {
    let click = format!(
        "[...document.querySelectorAll('.tabs a')].find((tab) => tab.textContent === '{text}').click(); true"
    );
    browser.evaluate(window, &click).await;
}

async fn fill_in(browser: &mut Browser, window: &Window, name: &str, value: &str) {
    let typed = format!("document.querySelector('[name=\"{name}\"]').value = '{value}'; true");
    browser.evaluate(window, &typed).await;
}

async fn sees_secret(browser: &mut Browser, window: &Window, start: &str, has_scripts: bool) {
    let secret = format!("document.querySelector('pre [data-copy]').textContent.startsWith('{start}')");
    assert_eq!(browser.evaluate(window, &secret).await, true, "{start}");
    let is_in_url = "location.href.includes(document.querySelector('pre [data-copy]').textContent)";
    assert_eq!(browser.evaluate(window, is_in_url).await, false, "{start}");
    let copy = "document.querySelector('pre .copy') !== null";
    assert_eq!(browser.evaluate(window, copy).await, has_scripts, "{start}");
}

async fn changes_by_clicks(has_scripts: bool) {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    let disabled = json!({"value": !has_scripts});
    browser.call(&window, "Emulation.setScriptExecutionDisabled", disabled).await;
    sign_in(&mut browser, &window, &running).await;
    let (browser, window) = (&mut browser, &window);

    open_tab(browser, window, "Settings").await;
    until_heading(browser, window, "Settings of demo").await;
    fill_in(browser, window, "rate-limit", "500").await;
    press(browser, window, "Save").await;
    until_done(browser, window, "The settings are saved.").await;
    let saved = "document.querySelector('[name=\"rate-limit\"]').value";
    assert_eq!(browser.evaluate(window, saved).await, "500");

    open_tab(browser, window, "Credentials").await;
    until_heading(browser, window, "Credentials of demo").await;
    press(browser, window, "Rotate the API secret").await;
    until_heading(browser, window, "Rotate the API secret?").await;
    press(browser, window, "Rotate and show").await;
    until_heading(browser, window, "✓ The API secret is rotated").await;
    sees_secret(browser, window, "as_", has_scripts).await;

    browser.evaluate(window, "document.querySelector('.switch a[href$=\"/tokens\"]').click(); true").await;
    until_heading(browser, window, "Tokens of the admin API").await;
    press(browser, window, "New token").await;
    until_heading(browser, window, "New token").await;
    fill_in(browser, window, "name", "by-clicks").await;
    press(browser, window, "Create and show").await;
    until_heading(browser, window, "✓ The token by-clicks exists").await;
    sees_secret(browser, window, "tdga_", has_scripts).await;
    press(browser, window, "Tokens").await;
    until_heading(browser, window, "Tokens of the admin API").await;
    press(browser, window, "Revoke").await;
    until_heading(browser, window, "Revoke the token by-clicks?").await;
    press(browser, window, "Revoke the token").await;
    until_done(browser, window, "The token is revoked.").await;
}

#[tokio::test]
async fn settings_secrets_and_tokens_are_changed_by_clicks() {
    changes_by_clicks(true).await;
}

#[tokio::test]
async fn settings_secrets_and_tokens_are_changed_without_scripts() {
    changes_by_clicks(false).await;
}
