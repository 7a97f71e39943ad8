//! Templates.

use std::sync::Arc;

use domain::{Channel, Role, TemplateProfile};
use operations::explain::{self, Explained};
use operations::operators::SignedIn;
use operations::templates::{
    self, MOST_AN_HOUR, Sample, TemplateDocument, TestRecipient, TestSendError, TestSends, TestText,
};
use operations::{Caller, Conflict, Grant, Object, OperationError, Permission, Publisher, Sends, users};
use serde_json::json;
use service_kit::Context;
use store::inbox::list::{InboxFilter, PageStart};
use testkit::eventually;

use crate::system::{SOON, System};
use crate::world;

fn tests(context: &Context) -> TestSends {
    let publisher = Arc::new(Publisher::start(context, context.tasks.token()));
    TestSends::new(Arc::new(Sends::start(context, publisher)))
}

#[tokio::test]
async fn versions_of_templates_are_recorded() {
    let world = world().await;
    let document = json!({"identifier": "hi", "channels": {"sms": {"text": "Hi"}}});
    let document = TemplateDocument::read(document, TemplateProfile::All).unwrap();
    for version in 1..=2 {
        let put = templates::put(&world.operations, &world.admin, world.shop, &document).await.unwrap();
        assert_eq!(put.1, version);
    }
    let audit = world.audit().await;
    assert_eq!((audit[1].before.clone(), audit[1].after.clone()), (None, Some(json!({"version": 1}))));
    let (before, after) = (json!({"version": 1}), json!({"version": 2}));
    assert_eq!((audit[0].before.clone(), audit[0].after.clone()), (Some(before), Some(after)));
}

#[tokio::test]
async fn an_earlier_version_is_restored_as_a_new_one() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    for text in ["one", "two"] {
        let document = json!({"identifier": "hi", "channels": {"sms": {"text": text}}});
        let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
        templates::put(operations, admin, shop, &document).await.unwrap();
    }
    assert_eq!(templates::restore(operations, admin, shop, "hi", 1, None).await.unwrap(), 3);
    let newest = templates::find(operations, admin, shop, "hi", None).await.unwrap();
    assert_eq!((newest.version, &newest.channels), (3, &json!({"sms": {"text": "one"}})));
    let second = templates::find(operations, admin, shop, "hi", Some(2)).await.unwrap();
    assert_eq!(second.channels, json!({"sms": {"text": "two"}}));
    let versions = templates::versions(operations, admin, shop, "hi", 2).await.unwrap();
    assert_eq!(versions.iter().map(|version| version.version).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(world.audit().await[0].after, Some(json!({"version": 3})));

    for (identifier, version, missing) in
        [("ho", None, Object::Template), ("hi", Some(9), Object::TemplateVersion)]
    {
        let error = templates::find(operations, admin, shop, identifier, version).await.unwrap_err();
        assert!(matches!(error, OperationError::NotFound(object) if object == missing), "{error}");
    }
}

#[tokio::test]
async fn a_version_is_published_only_after_the_one_that_the_author_knows() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    let document = json!({"identifier": "hi", "channels": {"sms": {"text": "one"}}});
    let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
    let publish = async |newest| templates::publish(operations, admin, shop, &document, newest).await;
    assert_eq!(publish(0).await.unwrap(), 1);
    for stale in [0, 2, -1] {
        let error = publish(stale).await.unwrap_err();
        assert!(matches!(error, OperationError::Conflict(Conflict::TemplateChanged)), "{error}");
        let error = templates::restore(operations, admin, shop, "hi", 1, Some(stale)).await.unwrap_err();
        assert!(matches!(error, OperationError::Conflict(Conflict::TemplateChanged)), "{error}");
    }
    assert_eq!(templates::list(operations, admin, shop).await.unwrap()[0].version, 1);
    assert_eq!(world.audit().await.len(), 2, "a refused version has no row");
    assert_eq!((publish(1).await.unwrap(), publish(2).await.unwrap()), (2, 3));
}

fn sample(value: &serde_json::Value) -> Sample {
    Sample::new(value.as_object().unwrap().clone())
}

/// An app with an editor, a person who is marked for tests, and one who is not.
async fn system() -> (System, SignedIn) {
    let system = System::start().await;
    for (identifier, is_test) in [("tester", true), ("ada", false)] {
        let profile = json!({"app": {"name": "Tess", "test": is_test}, "test": true});
        let profile = profile.as_object().unwrap().clone();
        users::create(&system.operations, &system.backend(), system.shop.id, identifier, profile)
            .await
            .unwrap();
    }
    let grants = vec![Grant { role: Role::Editor, app: Some(system.shop.id) }];
    let caller = system.operator(Role::Editor);
    (system, SignedIn { caller, email: "ed@example.com".to_owned(), grants, by_provider: false })
}

#[tokio::test]
async fn a_test_send_delivers_the_unpublished_text_to_marked_people_and_to_the_operator() {
    let (system, editor) = system().await;
    let context = &system.installation.context;
    let tests = tests(context);
    let document = json!({
        "identifier": "draft",
        "channels": {
            "inApp": {"title": "Hi {{ recipient.app.name }}", "message": "{{ x }}"},
            "email": {"subject": "Hi", "html": "<p>{{ x }}</p>"},
        },
    });
    let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
    let send = async |to, channel| {
        let text = TestText { document: &document, sample: sample(&json!({"x": 7})), channel };
        tests.send(&system.operations, &editor.caller, &system.shop, text, to).await
    };
    let sent = send(TestRecipient::Person("tester"), Some(Channel::InApp)).await.unwrap();
    assert_eq!(sent.iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), [Channel::InApp]);
    let caller = system.user("tester");
    let item = eventually(SOON, "the item is on the list", async || {
        let newest = PageStart::Offset(0);
        let listed = system.inboxes.list(&caller, InboxFilter::default(), newest, 1).await.unwrap();
        listed.page.items.into_iter().next()
    });
    let item = item.await;
    assert!(item.content.contains("[Test] Hi Tess") && item.content.contains("\"7\""), "{}", item.content);

    let all = send(TestRecipient::Person("tester"), None).await.unwrap();
    assert_eq!(all.len(), 2);
    let own = send(TestRecipient::Operator("ed@example.com"), None).await.unwrap();
    let explained = eventually(SOON, "the email is planned", async || {
        let (identifier, send) = ("operator:ed@example.com", own[0].1);
        let found =
            explain::request(&system.operations, &editor.caller, system.shop.id, identifier, send, false);
        match found.await {
            Ok(Explained::Found(found)) => found.story.map(|story| format!("{:?}", story.channels)),
            _ => None,
        }
    });
    assert!(explained.await.contains("NoProvider"), "the app has no provider of emails");
    for (to, channel, expected) in [
        (TestRecipient::Person("ada"), None, "not marked"),
        (TestRecipient::Person("eve"), None, "does not exist"),
        (TestRecipient::Person("tester"), Some(Channel::Sms), "no content"),
        (TestRecipient::Operator("ed@example.com"), Some(Channel::InApp), "only emails"),
    ] {
        let error = send(to, channel).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let rows = context.store.database().list_audit(system.shop.id.into(), 100).await.unwrap();
    let rows: Vec<_> = rows.iter().filter(|row| row.action == "template.test-send").collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].after, Some(json!({"channels": ["email"], "to": "operator"})));
    assert_eq!(rows[0].actor, "operator:7");
    let templates = templates::list(&system.operations, &editor.caller, system.shop.id).await.unwrap();
    assert!(templates.is_empty(), "the text is not stored");
}

#[tokio::test]
async fn test_sends_are_limited_by_operator_and_need_the_role_editor() {
    let (system, editor) = system().await;
    let tests = tests(&system.installation.context);
    let document = json!({"identifier": "draft", "channels": {"inApp": {"title": "Hi"}}});
    let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
    let send = async |operator: &SignedIn| {
        let text = TestText { document: &document, sample: Sample::default(), channel: None };
        let to = TestRecipient::Person("tester");
        tests.send(&system.operations, &operator.caller, &system.shop, text, to).await
    };
    for role in [Role::Viewer, Role::Support] {
        let operator = SignedIn {
            caller: system.operator(role),
            email: String::new(),
            grants: Vec::new(),
            by_provider: false,
        };
        let error = send(&operator).await.unwrap_err();
        let needed = Permission::EditTemplates;
        assert!(matches!(error, TestSendError::Failed(OperationError::Denied(denied)) if denied == needed));
    }
    for _ in 0..MOST_AN_HOUR {
        send(&editor).await.unwrap();
    }
    assert!(matches!(send(&editor).await, Err(TestSendError::UsedUp)));
    let grants = vec![Grant { role: Role::Editor, app: Some(system.shop.id) }];
    let other = SignedIn {
        caller: Caller::operator(8, grants),
        email: String::new(),
        grants: Vec::new(),
        by_provider: false,
    };
    send(&other).await.unwrap();
}
