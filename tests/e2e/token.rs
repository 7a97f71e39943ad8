//! Tokens of the admin API, and the commands that change what waits and what is redriven.

use serde_json::Value;

use crate::installation::Installation;

#[tokio::test]
async fn a_token_is_printed_once_listed_without_its_text_and_revoked() {
    let installation = Installation::create().await;
    let created = installation.run(&["app", "create", "shop"]);
    assert_eq!(created.code, 0, "{created:?}");
    let created = installation.run(&["token", "create", "ci", "--role", "editor", "--app", "shop", "--json"]);
    assert_eq!(created.code, 0, "{created:?}");
    let created: Value = serde_json::from_str(&created.output).unwrap();
    let text = created["token"].as_str().unwrap();
    assert!(text.starts_with("tdga_"), "{created}");
    let listed = installation.run(&["token", "list", "--json"]);
    assert!(listed.output.contains("\"name\":\"ci\"") && !listed.output.contains(text), "{listed:?}");
    let listed = installation.run(&["token", "list"]);
    assert!(listed.output.contains("editor of app") && listed.output.contains("valid"), "{listed:?}");
    for (arguments, code, text) in [
        (&["token", "create", "ci", "--role", "viewer"][..], 1, "has or had the name"),
        (&["token", "create", "x", "--role", "owner"], 2, "viewer"),
        (&["token", "create", "x", "--role", "viewer", "--expires-in", "10m"], 2, "an hour to 366 days"),
        (&["token", "create", "x", "--role", "viewer", "--expires-in", "2y"], 2, "at most 366 days"),
        (&["token", "create", "x", "--role", "viewer", "--app", "none"], 1, "does not exist"),
        (&["token", "revoke", "ci"], 0, "is revoked"),
        (&["token", "revoke", "ci"], 1, "no valid token"),
        (&["token", "create", "ci", "--role", "viewer"], 1, "has or had the name"),
    ] {
        let answer = installation.run(arguments);
        assert_eq!(answer.code, code, "{arguments:?}: {answer:?}");
        assert!(format!("{}{}", answer.output, answer.errors).contains(text), "{arguments:?}: {answer:?}");
    }
    let audit = installation.run(&["audit", "list", "shop"]);
    assert!(audit.output.contains("token.create") && audit.output.contains("token.revoke"), "{audit:?}");
}

#[tokio::test]
async fn redrives_in_the_background_and_releases_have_commands() {
    let installation = Installation::create().await;
    assert_eq!(installation.run(&["app", "create", "shop"]).code, 0);
    let release = [
        "waiting",
        "release",
        "shop",
        "--channel",
        "email",
        "--reason",
        "breaker_open",
        "--provider",
        "main",
    ];
    for (arguments, code, text) in [
        (&["waiting"][..], 0, "No delivery waits"),
        (&release, 0, "0 deliveries of app shop"),
        (&["waiting", "release", "shop", "--channel", "email", "--reason", "nonsense"], 2, "breaker_open"),
        (&["parked", "run", "list", "shop"], 0, "RUN"),
        (&["parked", "run", "show", "shop", "7"], 1, "has no redrive 7"),
        (&["parked", "run", "pause", "shop", "7"], 1, "has no redrive 7"),
        (&["parked", "run", "start", "--app", "shop", "--dry-run"], 0, "Would redrive 0 of 0"),
        (&["parked", "run", "start", "--app", "shop"], 2, "No message would be redriven"),
        (&["parked", "run", "start", "--channel", "email"], 2, "--app"),
    ] {
        let answer = installation.run(arguments);
        assert_eq!(answer.code, code, "{arguments:?}: {answer:?}");
        assert!(format!("{}{}", answer.output, answer.errors).contains(text), "{arguments:?}: {answer:?}");
    }
}
