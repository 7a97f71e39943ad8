//! Tests of the settings of providers, and of the choice of a provider by token.

use domain::Outcome;
use mobile_push::apns::Apns;
use mobile_push::fcm::Fcm;
use mobile_push::{KINDS, MobilePushSender};
use serde_json::{Value, json};
use stand_ins::tls::Authority;
use worker::{ChannelSender as _, Kind};

use crate::fixture::{ANDROID, PHONE, PushWorld};

fn with(mut settings: Value, member: &str, value: Value) -> Value {
    settings[member] = value;
    settings
}

fn wrong(kind: &dyn Kind, settings: &Value) -> Vec<String> {
    let problems = kind.check(settings).err().unwrap_or_default();
    for problem in &problems {
        assert!(!problem.message.contains("BEGIN"), "a problem contains a secret: {}", problem.message);
    }
    problems.into_iter().map(|problem| problem.field).collect()
}

#[tokio::test]
async fn every_problem_of_apns_settings_is_reported() {
    let good = PushWorld::apns().await.provider.settings;
    assert_eq!(wrong(&Apns, &good), [""; 0]);
    let cases = [
        (with(good.clone(), "environment", json!("test")), vec!["settings.environment"]),
        (with(good.clone(), "topic", json!("a b")), vec!["settings.topic"]),
        (with(good.clone(), "teamId", json!(null)), vec!["settings.teamId"]),
        (with(good.clone(), "key", json!("-----BEGIN PRIVATE KEY-----\nx")), vec!["settings.key"]),
        (with(good.clone(), "baseUrl", json!("ftp://x")), vec!["settings.baseUrl"]),
        (with(good.clone(), "baseUrl", json!("https://u:p@x")), vec!["settings.baseUrl"]),
        (with(good.clone(), "caCertificate", json!("x")), vec!["settings.caCertificate"]),
        (with(good.clone(), "odd", json!(1)), vec!["settings.odd"]),
    ];
    for (settings, fields) in cases {
        assert_eq!(wrong(&Apns, &settings), fields, "{fields:?}");
    }
    let client = Authority::new().unwrap().client().clone();
    let both = with(good, "certificate", json!(client.certificate));
    assert_eq!(wrong(&Apns, &both), ["settings.teamId", "settings.keyId"]);
    let certificate = json!({
        "environment": "production", "topic": "com.example.shop", "certificate": client.certificate, "key": client.key,
    });
    assert_eq!(wrong(&Apns, &certificate), [""; 0]);
    assert_eq!(wrong(&Apns, &with(certificate, "key", json!("x"))), ["settings.certificate"]);
    let required =
        ["settings.environment", "settings.topic", "settings.key", "settings.teamId", "settings.keyId"];
    assert_eq!(wrong(&Apns, &json!({})), required);
}

#[tokio::test]
async fn every_problem_of_fcm_settings_is_reported() {
    let good = PushWorld::fcm().await.provider.settings;
    assert_eq!(wrong(&Fcm, &good), [""; 0]);
    let text = good["serviceAccount"].to_string();
    assert_eq!(wrong(&Fcm, &with(good.clone(), "serviceAccount", json!(text))), [""; 0], "file as text");
    assert_eq!(wrong(&Fcm, &json!({})), ["settings.serviceAccount"]);
    let account = |member: &str, value: Value| {
        with(good.clone(), "serviceAccount", with(good["serviceAccount"].clone(), member, value))
    };
    for settings in [
        account("private_key", json!("x")),
        account("project_id", json!("../x")),
        account("client_email", json!(null)),
        account("token_uri", json!("nowhere")),
        with(good.clone(), "serviceAccount", json!("{")),
    ] {
        assert_eq!(wrong(&Fcm, &settings), ["settings.serviceAccount"]);
    }
    assert_eq!(wrong(&Fcm, &with(good.clone(), "tokenUrl", json!("x"))), ["settings.tokenUrl"]);
}

#[tokio::test]
async fn each_kind_serves_the_tokens_of_its_service() {
    assert_eq!(KINDS.iter().map(|kind| kind.name()).collect::<Vec<_>>(), ["apns", "fcm"]);
    let serves = MobilePushSender::serves;
    assert!(serves("apns", "apns:x") && serves("fcm", "fcm:x:y"));
    assert!(!serves("apns", "fcm:x") && !serves("fcm", "apns:x") && !serves("fcm", "x"));

    let (apns, fcm) = (PushWorld::apns().await, PushWorld::fcm().await);
    let answer = apns.send_job(&fcm.job(ANDROID, crate::fixture::content()), crate::fixture::NOW).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "target"));
    let mut other = PushWorld::apns().await;
    other.provider.kind = "pigeon".to_owned();
    assert_eq!(other.send(PHONE).await.code, "settings");
    let mut bad = PushWorld::apns().await;
    bad.provider.settings["key"] = json!("x");
    let answer = bad.send(PHONE).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "settings"));
}
