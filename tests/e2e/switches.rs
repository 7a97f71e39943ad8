//! `tidings app set`: sets all given switches. If any of them is invalid, it sets none and lists all problems.

use serde_json::{Value, json};
use store::control::app::App;

use crate::installation::Installation;

async fn shop(installation: &Installation) -> App {
    installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap()
}

// Long, because it sets and reads every switch.
#[allow(clippy::too_many_lines)]
#[tokio::test]
async fn switches_are_set_and_listed() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let shown = |app: &Value| {
        let names = [
            "secureMode",
            "hmac",
            "requireExp",
            "tokenSubject",
            "templateProfile",
            "maxUsers",
            "maxCategories",
            "maxDevices",
            "maxTopics",
            "maxSubscriptions",
            "maxSendMegabytes",
            "maxFileMegabytes",
            "realtimeConnections",
            "addressKeys",
            "corsOrigins",
            "rateLimit",
            "transactionalRate",
            "disabled",
        ];
        names.map(|name| app[name].clone())
    };
    let listed = installation.run(&["app", "list", "--json"]).json();
    let fresh = [
        json!(true),
        json!(false),
        json!(true),
        json!("prefixed"),
        json!("app"),
        json!(null),
        json!(null),
        json!(null),
        json!(null),
        json!(null),
        json!(null),
        json!(null),
        json!(null),
        json!("guarded"),
        json!(null),
        json!(null),
        json!(null),
        json!(false),
    ];
    assert_eq!(shown(&listed[0]), fresh);

    let set = installation.run(&[
        "app",
        "set",
        "shop",
        "secure-mode=on",
        "hmac=on",
        "require-exp=on",
        "token-subject=either",
        "template-profile=all",
        "max-users=4",
        "max-categories=5",
        "max-devices=6",
        "max-topics=8",
        "max-subscriptions=9",
        "max-send-megabytes=12",
        "max-file-megabytes=13",
        "realtime-connections=11",
        "address-keys=open",
        "cors-origins=https://a.example,http://localhost:3000",
        "rate-limit=7",
        "transactional-rate=3",
        "disabled=on",
        "--json",
    ]);
    let origins = json!(["https://a.example", "http://localhost:3000"]);
    let changed = [
        json!(true),
        json!(true),
        json!(true),
        json!("either"),
        json!("all"),
        json!(4),
        json!(5),
        json!(6),
        json!(8),
        json!(9),
        json!(12),
        json!(13),
        json!(11),
        json!("open"),
        origins,
        json!(7),
        json!(3),
        json!(true),
    ];
    assert_eq!(shown(&set.json()), changed);
    assert_eq!(set.json(), installation.run(&["app", "list", "--json"]).json()[0]);
    assert!(installation.run(&["app", "list"]).output.contains("disabled"));

    let set =
        installation.run(&["app", "set", "shop", "rate-limit=default", "cors-origins=none", "disabled=off"]);
    assert_eq!(set.code, 0, "{}", set.errors);
    assert!(set.output.contains("rate-limit=default\n  cors-origins=none\n"), "{}", set.output);
    let app = shop(&installation).await;
    let id = app.id.to_string();
    let app = app.settings;
    assert_eq!((app.rate_limit, app.cors_origins, app.disabled), (None, Some(vec![]), false));
    assert!(app.secure_mode && app.hmac && app.require_exp, "switches that are not named stay unchanged");
    assert_eq!(installation.run(&["app", "set", &id, "cors-origins=any", "secure-mode=off"]).code, 0);
    let app = shop(&installation).await.settings;
    assert_eq!((app.cors_origins, app.secure_mode), (None, false));
}

#[tokio::test]
async fn every_invalid_switch_is_named_and_none_is_set() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let before = shop(&installation).await;
    let cases = [
        (
            &["hmac=on", "secure-mode=yes", "rate-limit=0", "frobnicate=on"][..],
            &["secure-mode", "rate-limit", "frobnicate"][..],
        ),
        (&["hmac=on", "hmac=off"], &["hmac must be given only once"]),
        (&["hmac"], &["hmac must be on or off"]),
        (&["address-keys=on", "disabled="], &["open or guarded", "disabled must be"]),
        (&["rate-limit=1000001"], &["from 1 to 1000000"]),
        (&["max-users=0", "max-devices=1000000001"], &["max-users must", "max-devices must"]),
        (&["max-topics=-1", "max-subscriptions=all"], &["max-topics must", "max-subscriptions must"]),
        (&["token-subject=user", "template-profile="], &["prefixed, bare or either", "all or app"]),
        (&["rate-limit=-1", "transactional-rate=0"], &["rate-limit must", "transactional-rate must"]),
        (&["cors-origins="], &["cors-origins"]),
        (&["cors-origins=https://a.example/,any"], &["\"https://a.example/\"", "\"any\""]),
    ];
    for (switches, expected) in cases {
        let refused = installation.run(&[&["app", "set", "shop"], switches].concat());
        assert_eq!(refused.code, 2, "{switches:?}");
        for part in expected {
            assert!(refused.errors.contains(part), "{part} is missing in {}", refused.errors);
        }
    }
    assert_eq!(shop(&installation).await, before);
    assert_eq!(installation.run(&["app", "set", "shop"]).code, 2);
    assert_eq!(installation.run(&["app", "set", "shoe", "hmac=on"]).code, 1);
}

#[tokio::test]
async fn turning_signatures_on_reports_that_a_new_secret_is_required() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let set = installation.run(&["app", "set", "shop", "hmac=on"]);
    assert!(set.output.contains("tidings app rotate-secret"), "{}", set.output);
    installation.run(&["app", "rotate-secret", "shop"]);
    let again = installation.run(&["app", "set", "shop", "hmac=on"]);
    assert!(!again.output.contains("rotate-secret"), "{}", again.output);
    assert!(!shop(&installation).await.secrets[0].sealed.is_empty());
    installation.run(&["app", "set", "shop", "hmac=off"]);
    assert!(shop(&installation).await.secrets.iter().all(|secret| secret.sealed.is_empty()));
}
