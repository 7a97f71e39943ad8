//! `tidings template`: each put adds a version, versions can be read back, and a template that cannot be rendered is refused.

use domain::send::TemplateRef;
use serde_json::{Value, json};

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

#[tokio::test]
async fn versions_can_be_shown_compared_and_restored() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let first = json!({"identifier": "hi", "channels": {"sms": {"text": "Hi\nyou\nthere"}}});
    let second =
        json!({"identifier": "hi", "name": "Hello", "channels": {"sms": {"text": "Hi\nAda\nthere"}}});
    installation.run_with_input(&["template", "put", "shop"], &first.to_string());
    let put = ["template", "put", "shop", "--dry-run"];
    let foretold = installation.run_with_input(&put, &second.to_string());
    assert!(foretold.output.contains("would get version 2"), "{foretold:?}");
    let listed = installation.run(&["template", "versions", "shop", "hi", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(installation.run(&["template", "diff", "shop", "hi"]).code, 2);
    installation.run_with_input(&put[..3], &second.to_string());

    let shown = installation.run(&["template", "show", "shop", "hi", "--version", "1"]);
    assert_eq!(shown.json()["channels"], first["channels"]);
    let again = installation.run_with_input(&["template", "put", "shop", "--json"], &shown.output).json();
    assert_eq!((&again["version"], &again["warnings"]), (&json!(3), &json!([])));

    let compared = installation.run(&["template", "diff", "shop", "hi", "--to", "2"]);
    assert_eq!(
        compared.output,
        "--- hi version 1\n+++ hi version 2\n@@ -1,6 +1,6 @@\n-name: hi\n+name: Hello\n category: -\n [sms.text]\n Hi\n-you\n+Ada\n there\n"
    );
    let same = installation.run(&["template", "diff", "shop", "hi", "--from", "1", "--to", "3"]);
    assert!(same.output.contains("have the same content"), "{same:?}");

    let restored = installation.run(&["template", "restore", "shop", "hi", "2", "--json"]).json();
    assert_eq!(restored, json!({"identifier": "hi", "version": 4, "restored": 2}));
    let newest = installation.run(&["template", "show", "shop", "hi", "--json"]).json();
    assert_eq!((&newest["version"], &newest["channels"]), (&json!(4), &second["channels"]));

    for (arguments, help) in [
        (&["show", "shop", "hello"][..], "tidings template list"),
        (&["versions", "shop", "hello"], "tidings template list"),
        (&["show", "shop", "hi", "--version", "9"], "tidings template versions"),
        (&["restore", "shop", "hi", "9"], "tidings template versions"),
    ] {
        let missing = installation.run(&[&["template"], arguments].concat());
        assert!(missing.code == 1 && missing.errors.contains(help), "{missing:?}");
    }
}

#[tokio::test]
async fn a_preview_shows_each_channel_as_the_app_renders_it() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let document = json!({"identifier": "hi", "channels": {
        "inApp": {"title": "Hi {{ recipient.name }}{{ recipient.app.name }}"},
        "email": {"subject": "Order {{ order }}", "text": "Order {{ order }}\nDear {{ recipient.app.name }}", "html": "<p>{{ recipient.app.name }}</p>"},
        "sms": {"text": "{{ order | round }}"},
    }});
    let put =
        installation.run_with_input(&["template", "put", "shop", "--json"], &document.to_string()).json();
    let warnings = put["warnings"].as_array().unwrap();
    let codes: Vec<_> = warnings.iter().map(|warning| (&warning["field"], &warning["code"])).collect();
    let (title, html) = (json!("channels.inApp.title"), json!("channels.email.html"));
    assert_eq!(codes, [(&title, &json!("hidden_variable")), (&html, &json!("parts_differ"))]);

    let data = json!({"order": 7, "recipient": {"name": "secret", "app": {"name": "<Ada>"}}});
    let file = installation.file("data.json", &data);
    let preview = ["template", "preview", "shop", "hi", "--data", &file];
    let shown = installation.run(&[&preview[..], &["--json"]].concat()).json();
    assert_eq!(shown["channels"]["inApp"]["title"], "Hi <Ada>", "the app hides recipient.name");
    assert_eq!(shown["channels"]["email"]["html"], "<p>&lt;Ada&gt;</p>");
    assert_eq!(shown["channels"]["sms"]["text"], "7");

    assert_eq!(shown["missing"], json!([{"variable": "recipient.name", "text": "inApp.title"}]));
    let without = installation.run_with_input(&["template", "preview", "shop", "hi", "--data", "-"], "{}");
    let named = "Empty, because the data lacks it or templates do not see it: order in email.subject, \
                 recipient.app.name in inApp.title, recipient.name in inApp.title\n";
    assert!(without.output.ends_with(named), "{without:?}");

    let printed = installation.run(&preview).output;
    assert!(printed.contains("  subject  Order 7\n  text\n    Order 7\n    Dear <Ada>\n"), "{printed}");
    let folder = installation.path().join("shown");
    let written = installation.run(&[&preview[..], &["--to", folder.to_str().unwrap()]].concat());
    assert_eq!(written.code, 0, "{written:?}");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("email.html"), "<p>&lt;Ada&gt;</p>");
    assert_eq!(read("email.txt"), "Subject: Order 7\n\nOrder 7\nDear <Ada>\n");
    assert_eq!((read("sms.txt").as_str(), read("inApp.json").contains("Hi <Ada>")), ("7\n", true));

    installation.run(&["app", "set", "shop", "template-profile=all"]);
    let shown = installation.run(&[&preview[..], &["--json"]].concat()).json();
    assert_eq!(shown["channels"]["inApp"]["title"], "Hi secret<Ada>");
    let wrong = installation.run_with_input(&["template", "preview", "shop", "hi", "--data", "-"], "[1]");
    assert!(wrong.code == 2 && wrong.errors.contains("must be a JSON object"), "{wrong:?}");
}

#[tokio::test]
async fn the_layout_of_an_app_is_shown_as_a_send_without_a_template_uses_it() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let set = |settings: &[&str]| installation.run(&[&["app", "set", "shop"], settings].concat());
    let missing = set(&["brand-name=Harbor", "email-layout=frame"]);
    assert!(missing.code == 2 && missing.errors.contains("tidings template put"), "{missing:?}");
    let put = |channels: Value| {
        let document = json!({"identifier": "frame", "channels": channels});
        installation.run_with_input(&["template", "put", "shop"], &document.to_string())
    };
    assert_eq!(put(json!({"sms": {"text": "Hi"}})).code, 0);
    let without_email = set(&["email-layout=frame"]);
    assert!(
        without_email.code == 2 && without_email.errors.contains("without an email"),
        "{without_email:?}"
    );
    let html = "<b>{{ app.brand.name }}</b><h1>{{ title }}</h1>{{ message }}<a href='{{ url }}'>Open</a><a href='{{ unsubscribe }}'>Stop</a>";
    assert_eq!(put(json!({"email": {"subject": "{{ title }}", "html": html}})).code, 0);
    assert_eq!(set(&["brand-name=Harbor & Co", "email-layout=frame"]).code, 0);
    let data = json!({"title": "Shipped", "message": "<i>On its way</i>", "url": "https://a.example/7"});
    let preview = ["template", "preview", "shop", "frame", "--data", "-", "--json"];
    let shown = installation.run_with_input(&preview, &data.to_string()).json();
    assert_eq!(shown["channels"]["email"]["subject"], "Shipped");
    let html = shown["channels"]["email"]["html"].as_str().unwrap();
    for part in [
        "<b>Harbor &amp; Co</b><h1>Shipped</h1>",
        "&lt;i&gt;On its way",
        "a.example",
        "'https://unsubscribe.invalid/'",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[tokio::test]
async fn a_sample_is_rendered_as_the_app_would() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let mut document = json!({
        "identifier": "hi",
        "channels": {"sms": {"text": "{{ recipient.age | round }}"}},
        "sample": {"recipient": {"age": 36}},
    });
    let refused = installation.run_with_input(&["template", "put", "shop"], &document.to_string());
    assert!(refused.code == 2 && refused.errors.contains("channels.sms.text"), "{refused:?}");
    document["channels"]["sms"]["text"] = json!("{{ recipient.app.age | round }}");
    document["sample"] = json!({"recipient": {"app": {"age": 36}}});
    let put = installation.run_with_input(&["template", "put", "shop"], &document.to_string());
    assert_eq!(put.code, 0, "{put:?}");
}
