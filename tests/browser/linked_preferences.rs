//! The pages behind the unsubscribe link of an email.

use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::eventually;

use crate::browser::{Browser, SOON, VIEWS, Window, demo};
use crate::running::RunningProcess;

/// Script that returns the surplus width of the page.
const SURPLUS: &str = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// Sends an email of a category, and returns its unsubscribe link.
async fn link(running: &RunningProcess) -> String {
    for (identifier, name) in [("orders", "Orders & returns"), ("codes", "Sign-in codes")] {
        let category = json!({"name": name, "critical": identifier == "codes"});
        assert_eq!(
            running.call(Method::PUT, &format!("/categories/{identifier}"), Some(&category)).await.0,
            200
        );
    }
    let plain = json!({"identifier": "comments-and-mentions", "name": "comments-and-mentions"});
    assert_eq!(running.call(Method::POST, "/categories", Some(&plain)).await.0, 200);
    let ada = json!({"email": "ada@example.com"});
    assert_eq!(running.call(Method::PUT, "/users/ada", Some(&ada)).await.0, 200);
    let send = json!({
        "notification": {"title": "Order 7 shipped", "message": "On its way.", "category": "orders"},
        "override": {"channels": ["email"]},
        "sendTo": {"recipients": ["ada"]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");
    let url = format!("{}/messages?channel=email", running.dev("outbox"));
    eventually(SOON, "the email with its link", async || {
        let answer: Value = Client::new().get(&url).send().await.unwrap().json().await.unwrap();
        let header = answer["data"][0]["headers"]["list-unsubscribe"][0].as_str()?.to_owned();
        Some(header.trim_matches(['<', '>']).to_owned())
    })
    .await
}

async fn looks_right(browser: &mut Browser, window: &Window, name: &str) {
    browser.has_no_findings_of_axe(window).await;
    for view in VIEWS {
        browser.look(window, view).await;
        assert_eq!(browser.evaluate(window, SURPLUS).await, 0, "{name} {view:?}");
        browser.keep_picture(window, name, view).await;
    }
}

#[tokio::test]
async fn the_reader_of_an_email_chooses_channels_without_signing_in() {
    let (running, _files) = demo().await;
    let link = link(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url(&link).await;
    browser.until_true(&window, "the question", "document.querySelector('form button') !== null").await;
    looks_right(&mut browser, &window, "unsubscribe").await;

    browser.evaluate(&window, "document.querySelector('a').click()").await;
    browser.until_true(&window, "the table", "document.querySelector('table') !== null").await;
    let names = "[...document.querySelectorAll('tbody th bdi')].map(({ textContent }) => textContent)";
    let named = json!(["Orders & returns", "Sign-in codes", "Comments and mentions"]);
    assert_eq!(browser.evaluate(&window, names).await, named);
    looks_right(&mut browser, &window, "preferences").await;

    let email = "document.querySelector('input[aria-label=\"Comments and mentions: Email\"]')";
    browser.evaluate(&window, &format!("{email}.click(), document.querySelector('button').click()")).await;
    let saved = "document.querySelector('.saved')?.textContent === 'Your choices are saved.'";
    browser.until_true(&window, "the choices are saved", saved).await;
    assert_eq!(browser.evaluate(&window, &format!("{email}.checked")).await, false);
    let (_, preferences) = running.get_as("ada", "/preferences").await;
    let [only] = &preferences.as_array().unwrap()[..] else { panic!("{preferences}") };
    assert_eq!(only["category"]["identifier"], "comments-and-mentions");
    assert_eq!(only["channels"], json!([{"channel": "email", "enabled": false}]));
    looks_right(&mut browser, &window, "preferences-saved").await;
}
