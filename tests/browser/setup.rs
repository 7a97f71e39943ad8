//! From a new app to its first email, by clicks in the console, with the stand-ins of `tidings up`.

use std::time::Instant;

use serde_json::json;
use sqlx::PgPool;

use crate::browser::{Browser, Window, demo};
use crate::console::{go, picture, press, sign_in, until_done, until_heading};
use crate::running::RunningProcess;

const ADDRESS: &str = "first@example.com";

/// Returns the port of the simulated mail server.
async fn mail_port(running: &RunningProcess) -> String {
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let port = sqlx::query_scalar("SELECT settings->>'port' FROM provider WHERE identifier = 'stand-in'");
    let port = port.fetch_one(&pool).await.unwrap();
    pool.close().await;
    port
}

async fn fill(browser: &mut Browser, window: &Window, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        let typed =
            format!("document.querySelector('main [name=\"{name}\"]').value = {}; true", json!(value));
        browser.evaluate(window, &typed).await;
    }
}

async fn has_text(browser: &mut Browser, window: &Window, text: &str) {
    let shown = format!("(document.querySelector('main')?.textContent ?? '').includes({})", json!(text));
    browser.until_true(window, text, &shown).await;
}

#[tokio::test]
async fn a_new_app_gets_a_provider_and_sends_its_first_email_by_clicks() {
    let (running, _files) = demo().await;
    let port = mail_port(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    let size = json!({"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    browser.call(&window, "Emulation.setDeviceMetricsOverride", size).await;
    let console = sign_in(&mut browser, &window, &running).await;
    let (browser, window) = (&mut browser, &window);
    let began = Instant::now();

    go(browser, window, &format!("{console}/apps")).await;
    press(browser, window, "Create an app").await;
    until_heading(browser, window, "Create an app").await;
    fill(browser, window, &[("name", "a/b?c#d")]).await;
    press(browser, window, "Create the app").await;
    has_text(browser, window, "API secret").await;
    press(browser, window, "Continue").await;
    until_heading(browser, window, "Set up a/b?c#d").await;
    picture(browser, window, "setup-1280-light").await;

    press(browser, window, "Add a provider").await;
    until_heading(browser, window, "Add a provider").await;
    press(browser, window, "SMTP server").await;
    until_heading(browser, window, "Add a provider: SMTP server").await;
    let settings = [("host", "127.0.0.1"), ("port", port.as_str()), ("from", "shop@example.com")];
    let fields = settings.map(|(name, value)| (format!("settings.{name}"), value));
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    fill(browser, window, &[&fields[..], &[("identifier", "main"), ("settings.security", "none")]].concat())
        .await;
    press(browser, window, "Save").await;
    until_done(browser, window, "The provider is saved").await;
    press(browser, window, "Test").await;
    until_done(browser, window, "The test passed").await;

    go(browser, window, &format!("{console}/apps/a%2Fb%3Fc%23d/setup")).await;
    fill(browser, window, &[("email", ADDRESS)]).await;
    press(browser, window, "Send it").await;
    has_text(browser, window, "main accepted the email").await;
    press(browser, window, "What happened").await;
    until_heading(browser, window, "It works").await;
    println!("from the list of apps to the first email: {:?}", began.elapsed());
    let captured = format!("{}/messages?channel=email&to={ADDRESS}", running.dev("outbox"));
    let captured = reqwest::get(captured).await.unwrap().text().await.unwrap();
    assert!(captured.contains("It works"), "{captured}");
}
