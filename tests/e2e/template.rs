//! `tidings template`: each put adds a version, and a template that cannot be rendered is refused.

use domain::send::TemplateRef;
use serde_json::json;

use crate::installation::Installation;

#[tokio::test]
async fn each_put_adds_a_version() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let mut document = json!({
        "identifier": "welcome", "name": "Welcome", "category": "onboarding",
        "channels": {
            "inApp": {"title": "Hi {{ recipient.name }}"},
            "email": {"subject": "Hi", "text": "Hi {{ recipient.name }}", "html": "<p>Hi {{ recipient.name }}</p>"},
        },
    });
    let file = installation.file("welcome.json", &document);
    let put = installation.run(&["template", "put", "shop", &file, "--json"]).json();
    assert_eq!((&put["identifier"], &put["version"]), (&json!("welcome"), &json!(1)));
    document["category"] = json!(null);
    let put = installation.run_with_input(&["template", "put", "shop"], &document.to_string());
    assert_eq!(put.code, 0, "{}", put.errors);

    let listed = installation.run(&["template", "list", "shop", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["version"], &listed[0]["category"]), (&json!(2), &json!(null)));
    assert!(installation.run(&["template", "list", "shop"]).output.contains("welcome"));

    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let named = TemplateRef::Identifier("welcome".to_owned());
    let stored = installation.store.control().find_template(app, &named).await.unwrap().unwrap();
    assert_eq!((stored.version, &stored.channels), (2, &document["channels"]));
}

#[tokio::test]
async fn a_syntax_error_exits_2_and_names_its_line() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let broken = json!({
        "identifier": "welcome",
        "channels": {
            "sms": {"text": "one\ntwo {{ name"},
            "email": {"subject": "{% if %}", "text": "Hi"},
            "fax": {"text": "Hi"},
        },
    });
    let refused = installation.run_with_input(&["template", "put", "shop"], &broken.to_string());
    assert_eq!(refused.code, 2);
    for part in ["channels.sms.text", "line 2", "channels.email.subject", "channels.fax"] {
        assert!(refused.errors.contains(part), "{part} is missing in {}", refused.errors);
    }
    assert_eq!(installation.run(&["template", "list", "shop", "--json"]).json(), json!([]));
}
