//! `tidings provider`: documents from files and standard input, secrets apart.

use domain::Channel;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::installation::Installation;

fn document() -> Value {
    json!({
        "identifier": "main", "channel": "email", "kind": "smtp", "priority": 5,
        "settings": {
            "host": "mail.example.com", "port": 587, "security": "starttls",
            "username": "shop", "password": "hunter2", "from": "shop@example.com",
        },
    })
}

#[tokio::test]
async fn a_provider_is_set_listed_and_set_again_without_its_secret() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let file = installation.file("main.json", &document());
    let set = installation.run(&["provider", "set", "shop", &file, "--json"]).json();
    assert_eq!(set, json!({"identifier": "main", "version": 1}));

    let listed = installation.run(&["provider", "list", "shop", "--json"]);
    assert!(!listed.output.contains("hunter2"));
    let listed = listed.json();
    assert_eq!(listed[0]["settings"]["username"], "shop");
    assert_eq!((&listed[0]["hasSecret"], &listed[0]["priority"]), (&json!(true), &json!(5)));

    let mut again = document();
    again["settings"].as_object_mut().unwrap().remove("password");
    again["settings"]["host"] = json!("mail2.example.com");
    let set = installation.run_with_input(&["provider", "set", "shop"], &again.to_string());
    assert_eq!(set.code, 0, "{}", set.errors);
    let app = installation.store.app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let row = installation.store.providers(app, Channel::Email).await.unwrap().remove(0);
    assert_eq!((row.version, &row.settings["host"]), (2, &json!("mail2.example.com")));
    let opened = installation.master_key.open(&format!("provider:{app}:main"), &row.sealed.unwrap()).unwrap();
    let opened: Value = serde_json::from_slice(opened.expose_secret()).unwrap();
    assert_eq!(opened, json!({"password": "hunter2"}));

    again["settings"].as_object_mut().unwrap().remove("username");
    let set = installation.run_with_input(&["provider", "set", "shop", "-"], &again.to_string());
    assert_eq!(set.code, 0, "{}", set.errors);
    let row = installation.store.providers(app, Channel::Email).await.unwrap().remove(0);
    assert!(row.sealed.is_none(), "a server without a login needs no secret");
}

#[tokio::test]
async fn a_bad_document_is_2_with_every_problem_and_changes_nothing() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let mut wrong = document();
    wrong["priority"] = json!("high");
    wrong["settings"]["port"] = json!(0);
    wrong["settings"]["from"] = json!("nobody");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &wrong.to_string());
    assert_eq!(refused.code, 2);
    for field in ["priority", "settings.port", "settings.from"] {
        assert!(refused.errors.contains(field), "{field} is missing in {}", refused.errors);
    }
    assert!(!refused.errors.contains("hunter2"));

    let mut unknown = document();
    unknown["channel"] = json!("sms");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &unknown.to_string());
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("email/smtp"), "{}", refused.errors);

    let mut keeps_nothing = document();
    keeps_nothing["settings"].as_object_mut().unwrap().remove("password");
    let refused = installation.run_with_input(&["provider", "set", "shop"], &keeps_nothing.to_string());
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("settings.password"), "{}", refused.errors);

    let refused = installation.run_with_input(&["provider", "set", "shop"], "{\n  \"identifier\" \"main\"}");
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("line 2"), "{}", refused.errors);
    assert_eq!(installation.run(&["provider", "set", "shop", "absent.json"]).code, 1);
    assert_eq!(installation.run_with_input(&["provider", "set", "shoe"], &document().to_string()).code, 1);
    assert_eq!(installation.run(&["provider", "list", "shop", "--json"]).json(), json!([]));
}
