//! The developer's job: from a new app to its first email, by clicks and keys in the console, with the stand-ins of `tidings up`. Then
//! a call that the API refused is found.

use std::time::Instant;

use reqwest::Client;
use serde_json::json;
use sqlx::PgPool;

use crate::browser::{Browser, Window, demo};
use crate::console::{picture, until_done, until_framed, until_heading};
use crate::console_jobs::sign_in;
use crate::running::RunningProcess;

const ADDRESS: &str = "first@example.com";

/// Name of the new app; true if pages run scripts.
#[derive(Clone, Copy)]
struct Setup {
    name: &'static str,
    scripts: bool,
}

impl Setup {
    /// Keeps a picture for the documentation.
    async fn picture(self, browser: &mut Browser, window: &Window, name: &str) {
        if self.scripts {
            picture(browser, window, &format!("{name}-1280-light")).await;
        }
    }
}

/// Returns the port of the simulated mail server.
pub(crate) async fn mail_port(running: &RunningProcess) -> String {
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let port = sqlx::query_scalar("SELECT settings->>'port' FROM provider WHERE identifier = 'stand-in'");
    let port = port.fetch_one(&pool).await.unwrap();
    pool.close().await;
    port
}

/// Creates an app. Returns its API key and API secret.
async fn create_app(browser: &mut Browser, window: &Window, setup: Setup) -> (String, String) {
    browser.click_on(window, "details.switch summary").await;
    browser.click(window, "All apps").await;
    until_heading(browser, window, "Apps").await;
    browser.click(window, "Create an app").await;
    until_heading(browser, window, "Create an app").await;
    browser.write(window, "name", setup.name).await;
    setup.picture(browser, window, "first-app").await;
    browser.click(window, "Create the app").await;
    until_heading(browser, window, "✓ The app").await;
    let mut credentials = browser.texts(window, "dl.facts code").await.into_iter();
    let credentials = (credentials.next().unwrap(), credentials.next().unwrap());
    browser.click(window, "Continue").await;
    until_heading(browser, window, &format!("Set up {}", setup.name)).await;
    setup.picture(browser, window, "setup").await;
    credentials
}

async fn add_provider(browser: &mut Browser, window: &Window, setup: Setup, port: &str) {
    browser.click(window, "Add a provider").await;
    until_heading(browser, window, "Add a provider").await;
    browser.click(window, "SMTP server").await;
    until_heading(browser, window, "Add a provider: SMTP server").await;
    browser.write(window, "identifier", "main").await;
    for (name, shown) in [("host", "mail.example.com"), ("port", "587"), ("from", "shop@example.com")] {
        browser.write(window, &format!("settings.{name}"), shown).await;
    }
    setup.picture(browser, window, "first-provider").await;
    browser.write(window, "settings.host", "127.0.0.1").await;
    browser.write(window, "settings.port", port).await;
    browser.choose(window, "settings.security", "none").await;
    browser.click(window, "Save").await;
    until_done(browser, window, "The provider is saved").await;
    browser.click(window, "Test").await;
    until_done(browser, window, "The test passed").await;
}

async fn publish_template(browser: &mut Browser, window: &Window, setup: Setup) {
    browser.click(window, "Templates").await;
    until_heading(browser, window, "Templates").await;
    browser.click(window, "New template…").await;
    until_heading(browser, window, "New template").await;
    browser.write(window, "identifier", "order-shipped").await;
    browser.click(window, "Write the text").await;
    until_heading(browser, window, "New template order-shipped").await;
    if setup.scripts {
        until_framed(browser).await;
    }
    setup.picture(browser, window, "first-template").await;
    browser.click(window, "Review and publish").await;
    until_heading(browser, window, "Publish order-shipped").await;
    browser.click(window, "Publish version 1").await;
    until_done(browser, window, "The version is published").await;
}

async fn send_first_email(browser: &mut Browser, window: &Window, setup: Setup) {
    browser.click(window, "Sends").await;
    browser.until_reads(window, "No send yet.").await;
    browser.click(window, "Set up the app").await;
    until_heading(browser, window, &format!("Set up {}", setup.name)).await;
    browser.write(window, "email", ADDRESS).await;
    browser.click(window, "Send it").await;
    let is_sent = "location.search.startsWith('?sent=') && document.readyState === 'complete'";
    browser.until_true(window, "the message is accepted", is_sent).await;
    if setup.scripts {
        browser.until_reads(window, "main accepted the email").await;
    } else {
        browser.reload_until_reads(window, "main accepted the email").await;
    }
    setup.picture(browser, window, "first-send").await;
    browser.click(window, "What happened").await;
    until_heading(browser, window, "It works").await;
    setup.picture(browser, window, "first-explanation").await;
}

/// Calls the API without a title, as a backend with a defect does.
async fn call_wrongly(running: &RunningProcess, (key, secret): &(String, String)) {
    let call = Client::new().post(format!("{}/v3/notifications", running.dev("api")));
    let call = call.header("X-SERVICE-API-KEY", key).header("X-SERVICE-API-SECRET", secret);
    let call = call.json(&json!({"notification": {"titel": "x"}, "sendTo": {"recipients": ["ada"]}}));
    assert_eq!(call.send().await.unwrap().status().as_u16(), 400);
}

async fn developer(setup: Setup) {
    let (running, _files) = demo().await;
    let port = mail_port(&running).await;
    let mut browser = Browser::start(&running).await;
    let began = Instant::now();
    let window = &sign_in(&mut browser, &running, setup.scripts).await;
    let browser = &mut browser;
    let size = json!({"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false});
    browser.call(window, "Emulation.setDeviceMetricsOverride", size).await;

    let credentials = create_app(browser, window, setup).await;
    add_provider(browser, window, setup, &port).await;
    publish_template(browser, window, setup).await;
    send_first_email(browser, window, setup).await;
    println!("from the sign-in to the first email: {:?}", began.elapsed());
    let captured = running.mails(ADDRESS).await;
    assert!(json!(captured).to_string().contains("It works"), "{captured:?}");

    call_wrongly(&running, &credentials).await;
    browser.click(window, "Refused").await;
    until_heading(browser, window, "Refused calls").await;
    browser.reload_until_reads(window, "notification.title").await;
    let row = browser.texts(window, "tbody tr:first-child td").await;
    assert!(row[1].contains("/v3/notifications") && row[2].starts_with("400"), "{row:?}");
    assert!(credentials.0.starts_with(row[5].trim_end_matches('…')), "{row:?}");
}

#[tokio::test]
async fn a_developer_sets_up_an_app_and_finds_a_refused_call() {
    developer(Setup { name: "shop", scripts: true }).await;
}

#[tokio::test]
async fn a_developer_sets_up_an_app_and_finds_a_refused_call_without_scripts() {
    developer(Setup { name: "a/b?c#d", scripts: false }).await;
}
