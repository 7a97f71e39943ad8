//! Effect of a send's `override` on the jobs of its channels.

use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{Channel, Envelope, Event, Lane, StreamName};
use serde_json::{Value, json};
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service, plain_send};

const SEND: &str = "POST /v3/notifications";
const TRY: &str = "POST /v3/notifications?dryRun=true";

/// Creates a provider of this channel and kind for the shop.
macro_rules! provider {
    ($channel:literal, $kind:literal) => {
        concat!(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             SELECT id, '",
            $kind,
            "', '",
            $channel,
            "', '",
            $kind,
            "', 1, true, '{}' FROM app WHERE name = 'shop'"
        )
    };
}
pub(crate) use provider;

impl Service {
    /// Waits for `count` transactional jobs of a channel, and returns them.
    pub(crate) async fn jobs(&self, channel: Channel, count: usize) -> Vec<DeliveryJob> {
        let stream = StreamName::Job(channel, Lane::Transactional);
        let held = eventually(SOON, "the stream holds the jobs", async || {
            let held = self.held(stream).await;
            (held.len() >= count).then_some(held)
        })
        .await;
        let jobs = held.into_iter().map(|envelope| match envelope.event {
            Event::DeliveryJob(job) => *job,
            other => panic!("{other:?}"),
        });
        jobs.collect()
    }

    async fn held(&self, stream: StreamName) -> Vec<Envelope> {
        let texts = self.held_as_text(stream).await;
        texts.iter().map(|text| Envelope::decode(text.as_bytes()).unwrap()).collect()
    }

    async fn held_as_text(&self, stream: StreamName) -> Vec<String> {
        let state = self.context.log.state(stream).await.unwrap();
        let mut reader = self.context.log.reader(stream, state.first_seq);
        let mut texts = Vec::new();
        while (texts.len() as u64) < state.messages {
            let records = reader.next_batch(100, Duration::ZERO).await.unwrap();
            texts.extend(records.iter().map(|record| String::from_utf8(record.payload.to_vec()).unwrap()));
        }
        texts
    }

    /// Returns every message of every stream.
    pub(crate) async fn everything_logged(&self) -> String {
        let mut all = String::new();
        for stream in StreamName::all(self.context.partitions) {
            all.extend(self.held_as_text(stream).await);
        }
        all
    }

    async fn ada(&self, app: &App) {
        let profile = json!({
            "email": "ada@example.com", "phoneNumber": "+4915112345678", "fcm": {"token": "one"}, "apns": {"token": "two"},
        });
        self.by(app, "PUT /v3/users/ada").json(&profile).send().await.is(200);
    }
}

fn with(overrides: Value) -> Value {
    let mut send = plain_send(&["ada"]);
    send["override"] = overrides;
    send
}

#[tokio::test]
async fn overrides_reach_the_jobs_of_their_channels() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "smtp")).await;
    service.run(provider!("sms", "twilio")).await;
    service.run(provider!("mobilePush", "fcm")).await;
    service.ada(&shop).await;
    service.template(&shop, "welcome", None, json!({
        "email": {"subject": "Hi {{ recipient.identifier }}", "html": "<b>template</b>", "text": "template"},
        "mobilePush": {"title": "template", "body": "Hi {{ recipient.identifier }}"},
    })).await;
    let mut send = with(json!({
        "channel": {
            "email": {"html": "<i>{{ as it stands }}</i>", "fromName": "The shop", "headers": {"X-Order": "7"}},
            "sms": {"text": "own", "from": "Shop"},
            "mobilePush": {"title": "own", "data": {"b": 2}, "ttl": 60},
        },
        "smtp": {"_config": {"fromName": "Other"}, "tag": "orders"},
    }));
    send["notification"] = json!({"templateIdentifier": "welcome", "data": {"a": 1, "b": 1}});
    send["category"] = json!("orders");

    let tried = service.by(&shop, TRY).json(&send).send().await.is(200);
    service.sent(&shop, &send).await;
    let email = service.jobs(Channel::Email, 1).await.remove(0);
    let content = json!(email.content)["email"].clone();
    assert_eq!(content["subject"], "Hi ada");
    assert_eq!((&content["html"], &content["text"]), (&json!("<i>{{ as it stands }}</i>"), &Value::Null));
    assert_eq!(content["options"], json!({"fromName": "The shop", "headers": {"X-Order": "7"}}));
    let own = json!({"smtp": {"_config": {"fromName": "Other"}, "tag": "orders"}});
    assert_eq!(json!(email.overrides), own);
    let categories = service.by(&shop, "GET /v3/categories").send().await.is(200);
    assert_eq!(json!(email.category), categories[0]["id"]);

    let sms = service.jobs(Channel::Sms, 1).await.remove(0);
    assert_eq!(json!(sms.content), json!({"sms": {"text": "own", "from": "Shop"}}));
    let pushes = service.jobs(Channel::MobilePush, 1).await;
    assert_eq!(pushes.len(), 1, "no provider serves the other token");
    assert_eq!(pushes[0].target, "fcm:one");
    let push = &json!(pushes[0].content)["push"];
    assert_eq!((&push["title"], &push["body"]), (&json!("own"), &json!("Hi ada")));
    assert_eq!((&push["data"], &push["options"]), (&json!({"a": 1, "b": 2}), &json!({"ttl": 60})));

    let shown: Vec<_> =
        tried["data"].as_array().unwrap().iter().filter(|row| row["status"] == "queued").collect();
    assert_eq!(shown.len(), 3, "{tried}");
    assert_eq!(shown[0]["content"]["fromName"], "The shop");
    assert_eq!(shown[0]["content"]["html"], content["html"]);
    assert_eq!(shown[1]["content"]["options"], json!({"ttl": 60}));
    assert_eq!(shown[2]["content"], json!({"text": "own", "from": "Shop"}));
}

#[tokio::test]
async fn a_job_names_the_category_that_its_reader_can_turn_off() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "smtp")).await;
    service.ada(&shop).await;
    let critical = json!({"identifier": "codes", "name": "Codes", "critical": true});
    service.by(&shop, "POST /v3/categories").json(&critical).send().await.is(200);
    for (number, category) in (1..).zip([Value::Null, json!("codes"), json!("news")]) {
        let mut send = with(json!({"channels": ["email"]}));
        send["category"] = category.clone();
        service.sent(&shop, &send).await;
        let job = service.jobs(Channel::Email, number).await.pop().unwrap();
        assert_eq!(job.category.is_some(), category == "news", "{category}");
    }
}

#[tokio::test]
async fn overrides_of_hosts_credentials_and_invalid_members_are_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let overrides = json!({
        "channels": ["pigeon"],
        "channel": {"email": {"from": "nobody", "headers": {"X-A": "b\r\nBcc: c@d.e", "To": "a@b.c"}}, "sms": 7},
        "smtp": {"_config": {"host": "evil.example", "password": "x", "from": "a@b.c"}},
        "other": "x",
    });
    service.by(&shop, SEND).json(&with(overrides)).send().await.has_problems(&[
        ("override.channels[0]", "unknown_channel"),
        ("override.channel.email.from", "invalid_address"),
        ("override.channel.email.headers.To", "not_allowed"),
        ("override.channel.email.headers.X-A", "invalid_character"),
        ("override.channel.sms", "invalid_type"),
        ("override.other", "invalid_type"),
        ("override.smtp._config.host", "not_allowed"),
        ("override.smtp._config.password", "not_allowed"),
    ]);
    assert_eq!(service.sends().await, 0);
}

#[tokio::test]
async fn strict_handling_knows_the_apps_providers() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    service.run(provider!("email", "smtp")).await;
    for app in [&shop, &bank] {
        service.by(app, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    }
    let send = with(json!({"smtp": {}, "smpt": {}, "channel": {"email": {"sender": "x"}}}));
    service.by(&shop, SEND).json(&send).send().await.is(202);
    let strict =
        |app: &App, send: &Value| service.by(app, SEND).header("Prefer", "handling=strict").json(send).send();
    strict(&shop, &send).await.has_problems(&[("override.channel.email.sender", "unknown_member")]);
    let send = with(json!({"smtp": {}, "smpt": {}}));
    strict(&shop, &send).await.has_problems(&[("override.smpt", "unknown_member")]);
    let both = [("override.smpt", "unknown_member"), ("override.smtp", "unknown_member")];
    strict(&bank, &send).await.has_problems(&both);
    strict(&shop, &with(json!({"smtp": {}}))).await.is(202);
}
