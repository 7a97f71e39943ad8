//! `POST /v3/notifications?dryRun=true`.

use domain::{Actor, Lane, StreamName};
use serde_json::{Value, json};
use store::control::template::NewTemplate;

use crate::service::{App, Backing, SOON, Service, plain_send, titles};

const SEND: &str = "POST /v3/notifications";
const TRY: &str = "POST /v3/notifications?dryRun=true";

/// Providers for email and mobile push, three users, a category for which bob turned off email, and a suppressed address.
const WORLD: &str = "
    INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
    SELECT id, channel, channel, CASE channel WHEN 'mobilePush' THEN 'fcm' ELSE 'test' END, 1, true, '{}'
    FROM app, unnest('{email,mobilePush}'::text[]) AS channel WHERE app.name = 'shop';
    INSERT INTO app_user (app_id, identifier, profile)
    SELECT id, identifier, profile FROM app, (VALUES
        ('ada', '{\"name\": \"Ada\", \"email\": \"ada@example.com\", \"fcm\": {\"tokens\": [\"one\", \"two\"]}}'::jsonb),
        ('bob', '{\"email\": \"bob@example.com\"}'),
        ('dan', '{\"name\": \"Dan\", \"email\": \"dead@example.com\"}')
    ) AS new (identifier, profile);
    INSERT INTO category (app_id, identifier, name) SELECT id, 'news', 'News' FROM app;
    INSERT INTO preference (app_id, user_number, category_id, channel, enabled)
    SELECT u.app_id, u.number, c.id, 'email', false FROM app_user u JOIN category c USING (app_id)
    WHERE u.identifier = 'bob';
    INSERT INTO suppression (app_id, channel, target, delivery_id, code)
    SELECT id, 'email', 'dead@example.com', gen_random_uuid(), '550' FROM app";

/// Query for the number of rows in each table to which a send writes, followed by all profiles.
const ROWS: &str = "
    SELECT (SELECT count(*) FROM app_user) || ' ' || (SELECT count(*) FROM category) || ' '
        || (SELECT count(*) FROM request) || ' ' || (SELECT count(*) FROM plan) || ' '
        || (SELECT count(*) FROM idempotency_key) || ' ' || (SELECT count(*) FROM attachment) || ' ' || (SELECT string_agg(profile::text, '' ORDER BY number) FROM app_user)";

impl Service {
    pub(crate) async fn template(
        &self,
        app: &App,
        identifier: &str,
        category: Option<&str>,
        channels: Value,
    ) {
        let template =
            NewTemplate { identifier, name: identifier, category, channels: &channels, mjml: None };
        self.context.store.control().put_template(app.id, template, &Actor::System).await.unwrap();
    }

    /// Waits until every send is dispatched.
    async fn dispatched(&self) {
        for &lane in Lane::ALL {
            let stream = StreamName::Send(lane);
            testkit::eventually(SOON, "the sends are dispatched", async || {
                let last = self.context.log.state(stream).await.unwrap().last_seq;
                let progress = self.context.log.consumer_progress(stream, "dispatcher").await.unwrap()?;
                (progress.ack_floor == last && progress.ack_pending == 0).then_some(())
            })
            .await;
        }
    }
}

/// Returns those members of a delivery that planning sets. Planning sets the status `queued`, so this replaces `delivered`.
fn decision(row: &Value) -> Value {
    let status = if row["status"] == "delivered" { &json!("queued") } else { &row["status"] };
    let [recipient, channel, target, reason] =
        ["recipient", "channel", "target", "reason"].map(|key| &row[key]);
    json!([recipient, channel, target, status, reason])
}

fn sorted(mut rows: Vec<Value>) -> Vec<String> {
    rows.sort_by_key(Value::to_string);
    rows.into_iter().map(|row| row.to_string()).collect()
}

fn sends() -> Vec<(&'static str, Value)> {
    let to =
        |recipients: Value| json!({"notification": {"title": "Hello"}, "sendTo": {"recipients": recipients}});
    let with = |mut send: Value, key: &str, value: Value| {
        send[key] = value;
        send
    };
    let named = |template: &str| {
        let send = to(json!(["ada", "bob", "dan", "eve", {"identifier": "new", "email": "new@example.com"}]));
        with(send, "notification", json!({"templateIdentifier": template}))
    };
    let crowd: Vec<_> =
        (0..600).map(|number| json!(format!("user-{number}"))).chain([json!("ada")]).collect();
    vec![
        ("plain", to(json!(["ada", "bob", "dan", "eve", "who@example.com"]))),
        (
            "selected channels",
            with(to(json!(["ada", "eve"])), "override", json!({"channels": ["email", "slack"]})),
        ),
        ("a category with preferences", with(to(json!(["ada", "bob"])), "category", json!("news"))),
        ("an unknown category", with(to(json!(["ada", "bob"])), "category", json!("unheard"))),
        (
            "inline profiles",
            to(json!([
                {"identifier": "ada", "fcm": {"token": "three"}},
                {"identifier": "eve", "email": "dead@example.com"},
                {"identifier": "fay@example.com", "phoneNumber": "+4915112345678"},
                {"identifier": "gus", "apns": {"token": "nobody serves it"}},
            ])),
        ),
        ("a template for some channels", named("some")),
        ("a template that fails for some", named("fails")),
        (
            "a template and overrides",
            with(
                named("some"),
                "override",
                json!({"channel": {
                    "email": {"subject": "s", "text": "t"}, "mobilePush": {"title": "t"}, "webPush": {"ttl": 1},
                }}),
            ),
        ),
        (
            "files",
            with(to(json!(["ada"])), "data", json!({"attachments": [{"name": "a", "content": "YQ=="}]})),
        ),
        ("a template with a category", named("news")),
        (
            "a template that comes out too large",
            with(named("large"), "data", json!({"filler": "\\".repeat(60_000)})),
        ),
        ("more than one chunk", to(json!(crowd))),
        ("later", with(to(json!(["ada"])), "expiresAt", json!("2100-01-01T00:00:00Z"))),
    ]
}

#[tokio::test]
async fn a_dry_run_decides_like_the_send_and_writes_nothing() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(WORLD).await;
    let texts = json!({"inApp": {"title": "Hi {{ recipient.name }}"}, "sms": {"text": "hi"}});
    service.template(&shop, "some", None, texts).await;
    // Title and subject are empty for a recipient without a name, so rendering fails.
    let texts =
        json!({"inApp": {"title": "{{ recipient.name }}"}, "email": {"subject": "{{ recipient.name }}"}});
    service.template(&shop, "fails", None, texts).await;
    let texts =
        json!({"inApp": {"title": "News"}, "email": {"subject": "News", "text": "For {{ category.name }}"}});
    service.template(&shop, "news", Some("news"), texts).await;
    let large = "{{ filler }}{{ filler }}{{ filler }}";
    let texts = json!({
        "inApp": {"title": "Large", "message": large, "url": large, "icon": large},
        "email": {"subject": "Large", "text": large, "html": large},
    });
    service.template(&shop, "large", None, texts).await;

    for (name, send) in sends() {
        let before = service.one_text(ROWS).await;
        let (messages, tried) =
            (service.sends().await, service.by(&shop, TRY).json(&send).send().await.is(200));
        assert_eq!(service.one_text(ROWS).await, before, "{name}");
        assert_eq!(service.sends().await, messages, "{name}");
        let tried = sorted(tried["data"].as_array().unwrap().iter().map(decision).collect());

        let request = service.sent(&shop, &send).await;
        service.dispatched().await;
        let decided = service.deliveries(&shop, &request, "").await.iter().map(decision).collect();
        assert_eq!(tried, sorted(decided), "{name}");
    }
}

#[tokio::test]
async fn a_dry_run_shows_what_the_first_recipients_would_read() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.run(WORLD).await;
    let channels = json!({
        "inApp": {"title": "Hi {{ recipient.name }}", "data": {"n": 1}},
        "email": {"subject": "For {{ recipient.name }}", "html": "<b>{{ what }}</b>"},
        "mobilePush": {"title": "{{ what }}"},
    });
    service.template(&shop, "welcome", None, channels).await;
    let mut recipients = vec![json!("ada")];
    recipients.extend(
        (1..12).map(|number| json!({"identifier": format!("u{number}"), "name": number.to_string()})),
    );
    let send = json!({
        "notification": {"templateIdentifier": "welcome"}, "recipients": recipients, "data": {"what": "a < b"},
    });
    let answer = service.by(&shop, TRY).json(&send).send().await;
    assert!(answer.header("deprecation").is_some());
    let outcome = answer.is(200);
    assert_eq!(outcome["recipients"], 12);
    let expected = json!({
        "inApp": {"queued": 12}, "email": {"queued": 1, "skipped": 11}, "mobilePush": {"queued": 2, "skipped": 11},
        "sms": {"skipped": 12}, "webPush": {"skipped": 12},
    });
    assert_eq!(outcome["counts"], expected);
    let data = outcome["data"].as_array().unwrap();
    let email = json!({
        "recipient": "ada", "channel": "email", "target": "a***@example.com", "status": "queued", "reason": null,
        "content": {
            "subject": "For Ada", "text": null, "html": "<b>a &lt; b</b>", "from": null, "fromName": null, "replyTo": null,
            "cc": [], "bcc": [], "headers": {}, "attachments": [], "missingContentIds": [],
        },
    });
    assert_eq!(data[0], email);
    let item = json!({
        "title": "Hi Ada", "message": null, "icon": null, "url": null, "data": {"n": 1, "what": "a < b"}, "blocks": [],
    });
    assert_eq!((&data[1]["channel"], &data[1]["content"]), (&json!("inApp"), &item));
    let push = json!({"title": "a < b", "body": null, "icon": null, "url": null, "data": {"what": "a < b"}, "options": {}});
    assert_eq!((&data[3]["target"], &data[3]["content"]), (&json!("fcm:t***"), &push));
    let shown: Vec<_> =
        data.iter().filter(|row| row["channel"] == "inApp").map(|row| !row["content"].is_null()).collect();
    assert_eq!(shown, [[true; 10].as_slice(), &[false; 2]].concat());
}

#[tokio::test]
async fn a_dry_run_refuses_what_the_send_would_refuse() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let mut rejecting = plain_send(&["ada", "eve"]);
    rejecting["onUnknownRecipient"] = json!("reject");
    let bodies = [
        json!({}),
        json!({"notification": {"templateIdentifier": "none"}, "sendTo": {"recipients": ["ada", 7]}}),
        rejecting,
    ];
    for body in bodies {
        let [tried, sent] = [TRY, SEND].map(|call| service.by(&shop, call).json(&body).send());
        let (tried, sent) = (tried.await.is(400), sent.await.is(400));
        assert_eq!(tried, sent, "{body}");
    }
    service
        .by(&shop, TRY)
        .header("Prefer", "handling=strict")
        .json(&json!({"sendto": 1}))
        .send()
        .await
        .is(400);
    service.of(&shop, "ada", TRY).json(&plain_send(&["ada"])).send().await.is(401);
}

#[tokio::test]
async fn a_dry_run_does_not_reserve_its_idempotency_key() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let call = |path: &str, title: &str| {
        let body =
            json!({"notification": {"title": title}, "sendTo": {"recipients": [{"identifier": "ada"}]}});
        service.by(&shop, path).header("Idempotency-Key", "key").json(&body).send()
    };
    call(TRY, "one").await.is(200);
    call(TRY, "two").await.is(200);
    call(SEND, "three").await.is(202);
    call(SEND, "four").await.fails(409, "idempotency_key_reused");
    // A dry run ignores idempotency keys, so the same key with another body succeeds.
    call(TRY, "four").await.is(200);
    testkit::eventually(SOON, "the send is listed", async || {
        let list = service.list(&shop, "ada", "").await;
        (titles(&list) == ["three"]).then_some(())
    })
    .await;
}
