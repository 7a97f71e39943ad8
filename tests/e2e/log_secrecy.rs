//! Logs contain no addresses, tokens, bodies or credentials. The test sends over every channel at level `trace`, and searches the
//! log for the values that it sent.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::eventually;
use url::Url;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SETTLED_WITHIN: Duration = Duration::from_secs(60);
const PERSON: &str = "planted-person";
const ADDRESS: &str = "planted.address@example.com";
const PHONE: &str = "+4915198765432";
const FCM_TOKEN: &str = "plantedfcm:CI2k_HHwgIpoDKCIZvvDMExUdFQ3P1";
const APNS_TOKEN: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f1";
const TITLE: &str = "planted title";
const MESSAGE: &str = "planted message with code 482913";
const DATA: &str = "planted-data";
const WRONG_SECRET: &str = "planted-wrong-secret";
const MALFORMED: &str = "planted-malformed-body";
const TOKEN: &str = "planted-bearer-token";

/// Lists every form that a text may have in a log line: plain, percent-encoded, hexadecimal, and base64 at each of the three
/// offsets in a longer text.
fn forms(planted: &str) -> Vec<String> {
    let escaped = url::form_urlencoded::byte_serialize(planted.as_bytes()).collect::<String>();
    let hexadecimal = planted.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![planted.to_owned(), escaped.replace('+', "%20"), escaped, hexadecimal];
    for before in 0..3 {
        let bytes = [&[0; 2][..before], planted.as_bytes()].concat();
        // Keep only the characters of the base64 text that do not depend on the bytes before and after.
        let characters = (8 * before).div_ceil(6)..8 * bytes.len() / 6;
        forms.extend(
            [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD]
                .map(|base64| base64.encode(&bytes)[characters.clone()].to_owned()),
        );
    }
    forms
}

fn check(log: &str, planted: &[&str]) {
    for planted in planted {
        for form in forms(planted) {
            if let Some(line) = log.lines().find(|line| line.contains(&form)) {
                panic!("{planted} is in the log as {form}: {line}");
            }
        }
    }
}

fn password(url: &str) -> String {
    let url = Url::parse(url).unwrap();
    url.password().unwrap().to_owned()
}

/// Gives a user a target on every channel.
async fn register(running: &RunningProcess) -> String {
    let profile = json!({
        "email": ADDRESS, "phoneNumber": PHONE, "fcm": {"tokens": [FCM_TOKEN, "UNREGISTERED"]},
        "apns": {"tokens": [APNS_TOKEN]},
    });
    let (status, user) = running.call(Method::PUT, &format!("/users/{PERSON}"), Some(&profile)).await;
    assert_eq!(status, 200, "{user}");
    let subscriptions = format!("{}/subscriptions", running.dev("pushService"));
    let subscription = Client::new().post(subscriptions).json(&json!({})).send().await.unwrap();
    let subscription: Value = subscription.json().await.unwrap();
    let path = format!("/devices/laptop/webPushSubscription?userIdentifier={PERSON}");
    let (status, stored) = running.call(Method::POST, &path, Some(&subscription)).await;
    assert_eq!(status, 200, "{stored}");
    subscription["endpoint"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
}

/// Sends over every channel, and waits until each delivery has a final status.
async fn send(running: &RunningProcess) {
    let send = json!({
        "notification": {"title": TITLE, "message": MESSAGE, "data": {"value": DATA}},
        "sendTo": {"recipients": [PERSON]},
        "override": {"channels": ["inApp", "email", "sms", "mobilePush", "webPush"]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");
    let path = format!("/requests/{}/deliveries", sent["requestId"].as_str().unwrap());
    eventually(SETTLED_WITHIN, "every delivery has a final status", async || {
        let (_, page) = running.call(Method::GET, &path, None).await;
        let deliveries = page["data"].as_array()?.clone();
        let of = |channel| deliveries.iter().any(|one| one["channel"] == channel);
        let reached = ["email", "sms", "mobilePush", "webPush"].into_iter().all(of);
        let ended = deliveries.iter().all(|one| one["channel"] == "inApp" || one["settledAt"].is_string());
        (reached && ended).then_some(())
    })
    .await;
}

/// Makes calls that are refused. Each contains data that an error message could repeat.
async fn provoke(running: &RunningProcess) {
    let call = || Client::new().post(format!("{}/v3/notifications", running.dev("api")));
    let wrong = call().header("X-SERVICE-API-KEY", running.dev("apiKey")).json(&json!({}));
    let wrong = wrong.header("X-SERVICE-API-SECRET", WRONG_SECRET).send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    assert_eq!(call().bearer_auth(TOKEN).json(&json!({})).send().await.unwrap().status(), 401);
    let malformed = running.request(Method::POST, "/notifications").body(format!("{{\"{MALFORMED}"));
    let malformed = malformed.header("Content-Type", "application/json").send().await.unwrap();
    assert_eq!(malformed.status(), 400);
    let (status, _) = running.call(Method::GET, &format!("/users/{PERSON}-unknown"), None).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn no_channel_logs_addresses_tokens_bodies_or_credentials_at_trace() {
    let directory = Directory::new();
    let variables = [("TIDINGS_LOG__LEVEL", "trace")];
    let mut running = RunningProcess::start_with(&directory.path().join("data"), &variables).await;
    let endpoint = register(&running).await;
    send(&running).await;
    provoke(&running).await;
    // The greeting shows the demo app's credentials on purpose. Search only the lines after it.
    let secret = running.dev("apiSecret").to_owned();
    let passwords = [password(running.dev("databaseUrl")), password(running.dev("natsUrl"))];
    let key = std::fs::read_to_string(directory.path().join("data/master.key")).unwrap();
    assert_eq!(running.stop().await, 0, "{}", running.log());
    let output = running.log();
    assert!(output.contains("refused the credentials of a request"), "{output}");
    assert!(output.contains("TRACE") || output.contains("DEBUG"), "own crates log below info: {output}");
    let planted = [
        PERSON,
        ADDRESS,
        PHONE,
        FCM_TOKEN,
        APNS_TOKEN,
        TITLE,
        MESSAGE,
        DATA,
        WRONG_SECRET,
        MALFORMED,
        TOKEN,
        &endpoint,
        &passwords[0],
        &passwords[1],
        key.trim(),
    ];
    check(&output, &planted);
    let log: String = output
        .lines()
        .filter(|line| {
            line.contains(" TRACE ")
                || line.contains("DEBUG ")
                || line.contains(" INFO ")
                || line.contains(" WARN ")
                || line.contains("ERROR ")
        })
        .collect();
    check(&log, &[&secret]);
}

/// Tidings does not control what a library logs below `info`. An operator who sets the level of a library must expect data in the
/// log, but never the passwords of the servers.
#[tokio::test]
async fn libraries_named_at_trace_still_log_no_password_of_the_servers() {
    let directory = Directory::new();
    let variables = [("TIDINGS_LOG__LEVEL", "trace,async_nats=trace,sqlx=trace")];
    let mut running = RunningProcess::start_with(&directory.path().join("data"), &variables).await;
    let passwords = [password(running.dev("databaseUrl")), password(running.dev("natsUrl"))];
    assert_eq!(running.stop().await, 0, "{}", running.log());
    let output = running.log();
    assert!(output.contains("async_nats::connector"), "the library does not log: {output}");
    check(&output, &[&passwords[0], &passwords[1]]);
}

#[test]
fn a_planted_text_is_found_in_base64_at_any_offset() {
    for before in ["", "a", "ab", "abc"] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}{ADDRESS}after"));
        assert!(forms(ADDRESS).iter().any(|form| encoded.contains(form)), "{before:?}");
    }
}
