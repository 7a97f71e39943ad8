//! Every option of `override`, with good and bad values: the gateway and dry runs judge them alike. The agreement tests of the
//! channels compare the gateway with the workers by the same values.

use std::collections::BTreeSet;

use domain::Channel;
use serde_json::{Value, json};
use testkit::override_options::{OptionValues, of_channel, of_email_provider};

use crate::client::Answer;
use crate::service::{App, Backing, Service, plain_send};

const SEND: &str = "POST /v3/notifications";
const TRY: &str = "POST /v3/notifications?dryRun=true";
const CHANNELS: [Channel; 4] = [Channel::Email, Channel::Sms, Channel::MobilePush, Channel::WebPush];

fn with(overrides: Value) -> Value {
    let mut send = plain_send(&["ada"]);
    send["override"] = overrides;
    send
}

/// Creates providers of every channel: their settings are what the gateway judges by.
async fn providers(service: &Service) {
    let settings = [
        ("mail", "email", "smtp", json!({"from": "news@example.com"})),
        ("text", "sms", "twilio", json!({})),
        ("apple", "mobilePush", "apns", json!({"topic": "com.example.demo"})),
        ("google", "mobilePush", "fcm", json!({})),
        ("browsers", "webPush", "vapid", json!({"subject": "mailto:push@example.com"})),
    ];
    for (identifier, channel, kind, settings) in settings {
        service.provider(identifier, channel, kind, &settings).await;
    }
}

impl Service {
    async fn provider(&self, identifier: &str, channel: &str, kind: &str, settings: &Value) {
        let insert = format!(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             SELECT id, '{identifier}', '{channel}', '{kind}', 1, true, '{settings}' FROM app WHERE name = 'shop'"
        );
        self.run(insert.leak()).await;
    }

    async fn both(&self, app: &App, send: &Value) -> (Answer, Answer) {
        let real = self.by(app, SEND).json(send).send().await;
        (real, self.by(app, TRY).json(send).send().await)
    }
}

/// Fields of the problems in an answer with 400; empty for other answers.
fn fields(answer: &Answer) -> BTreeSet<String> {
    let errors = answer.body["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
}

async fn walk(
    service: &Service,
    shop: &App,
    options: Vec<OptionValues>,
    path: &str,
    place: impl Fn(Value) -> Value,
) {
    for (option, good, bad) in options {
        let field = format!("{path}.{option}");
        for value in &good {
            let (real, tried) = service.both(shop, &with(place(json!({option: value})))).await;
            assert_eq!((real.status, tried.status), (202, 200), "{field}: {value}: {}", real.body);
        }
        for value in &bad {
            let (real, tried) = service.both(shop, &with(place(json!({option: value})))).await;
            assert_eq!((real.status, tried.status), (400, 400), "{field}: {value}: {}", real.body);
            let named = fields(&real);
            assert_eq!(named, fields(&tried), "{field}: {value}");
            let is_named = |name: &String| name.starts_with(&field) || name == path;
            assert!(named.iter().any(is_named), "{field}: {value}: {named:?}");
        }
    }
}

#[tokio::test]
async fn every_option_of_every_channel_gets_the_same_verdict_from_a_send_and_a_dry_run() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    providers(&service).await;
    for channel in CHANNELS {
        let path = format!("override.channel.{channel}");
        let place = |own: Value| json!({"channel": {channel.as_str(): own}});
        walk(&service, &shop, of_channel(channel), &path, place).await;
    }
    walk(
        &service,
        &shop,
        of_email_provider(),
        "override.mail._config",
        |own| json!({"mail": {"_config": own}}),
    )
    .await;
}

#[tokio::test]
async fn the_walk_has_every_option_of_the_openapi_document() {
    let service = Service::start_with(Backing::Nothing).await;
    let document = service.call("GET /openapi.json").send().await.is(200);
    let schema = |name: &str| {
        let properties = document["components"]["schemas"][name]["properties"].as_object();
        properties.unwrap_or_else(|| panic!("no schema {name}")).keys().cloned().collect::<BTreeSet<_>>()
    };
    let walked = |options: Vec<OptionValues>| {
        options.into_iter().map(|(name, ..)| name.to_owned()).collect::<BTreeSet<_>>()
    };
    let channels = schema("ChannelOverrides");
    assert_eq!(channels, CHANNELS.map(|channel| channel.as_str().to_owned()).into());
    for (channel, name) in
        CHANNELS.into_iter().zip(["EmailOverride", "SmsOverride", "MobilePushOverride", "WebPushOverride"])
    {
        assert_eq!(walked(of_channel(channel)), schema(name), "{name}");
    }
    assert_eq!(walked(of_email_provider()), schema("SenderOverride"));
    for (name, good, bad) in CHANNELS.into_iter().flat_map(of_channel).chain(of_email_provider()) {
        assert!(!good.is_empty() && !bad.is_empty(), "{name} needs good and bad values");
    }
}

#[tokio::test]
async fn a_sender_that_no_provider_allows_is_refused_before_202() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let from = |from: &str| with(json!({"channel": {"email": {"from": from}}}));
    // Without a provider, the settings that will decide are unknown.
    let (real, tried) = service.both(&shop, &from("a@other.example")).await;
    assert_eq!((real.status, tried.status), (202, 200));

    service.provider("mail", "email", "smtp", &json!({"from": "news@example.com"})).await;
    let problem = [("override.channel.email.from", "sender_not_allowed")];
    for sender in ["a@other.example", "a@mail.example.com"] {
        let (real, tried) = service.both(&shop, &from(sender)).await;
        real.has_problems(&problem);
        tried.has_problems(&problem);
    }
    assert_eq!(service.both(&shop, &from("a@Example.COM")).await.0.status, 202);
    let mut elsewhere = from("a@other.example");
    elsewhere["override"]["channels"] = json!(["inApp"]);
    assert_eq!(service.both(&shop, &elsewhere).await.0.status, 202, "the send uses no email");

    let own = |from: &str| with(json!({"mail": {"_config": {"from": from}}}));
    let (real, tried) = service.both(&shop, &own("a@other.example")).await;
    real.has_problems(&[("override.mail._config.from", "sender_not_allowed")]);
    tried.has_problems(&[("override.mail._config.from", "sender_not_allowed")]);
    assert_eq!(service.both(&shop, &own("a@example.com")).await.0.status, 202);

    // One provider that allows the sender suffices: the attempt decides which one is used.
    let settings = json!({"from": "x@third.example", "allowedFrom": ["@other.example"]});
    service.provider("second", "email", "postmark", &settings).await;
    assert_eq!(service.both(&shop, &from("a@other.example")).await.0.status, 202);
    service.run("UPDATE provider SET enabled = false WHERE identifier = 'second'").await;
    service.both(&shop, &from("a@other.example")).await.0.has_problems(&problem);
}

#[tokio::test]
async fn an_apns_topic_of_no_provider_is_refused_before_202() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let topic =
        |topic: &str| with(json!({"channel": {"mobilePush": {"apns": {"headers": {"apns-topic": topic}}}}}));
    assert_eq!(service.both(&shop, &topic("com.other")).await.0.status, 202, "no provider to judge by");
    service.provider("apple", "mobilePush", "apns", &json!({"topic": "com.example.demo"})).await;
    for named in ["com.other", "com.example", "com.example.demonstration"] {
        let (real, tried) = service.both(&shop, &topic(named)).await;
        let problem = [("override.channel.mobilePush.apns.headers.apns-topic", "invalid_header")];
        real.has_problems(&problem);
        tried.has_problems(&problem);
    }
    for named in ["com.example.demo", "com.example.demo.voip"] {
        assert_eq!(service.both(&shop, &topic(named)).await.0.status, 202, "{named}");
    }
}

#[tokio::test]
async fn push_options_that_are_too_large_together_are_refused_for_the_services_of_the_app() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    // FCM gets neither the subtitle nor the thread in its data; APNs gets both in the payload.
    let push = json!({"subtitle": "s".repeat(1_500), "threadId": "t".repeat(1_500), "data": {"x": "x".repeat(1_500)}});
    let send = with(json!({"channel": {"mobilePush": push}}));
    service.provider("google", "mobilePush", "fcm", &json!({})).await;
    assert_eq!(service.both(&shop, &send).await.0.status, 202);
    service.provider("apple", "mobilePush", "apns", &json!({"topic": "com.example.demo"})).await;
    let (real, tried) = service.both(&shop, &send).await;
    real.has_problems(&[("override.channel.mobilePush", "too_long")]);
    tried.has_problems(&[("override.channel.mobilePush", "too_long")]);
}

#[tokio::test]
async fn data_that_fits_into_no_push_is_refused_or_reported_by_a_dry_run() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    providers(&service).await;
    let profile = json!({"fcm": {"token": "one"}, "apns": {"token": "two"}});
    service.by(&shop, "PUT /v3/users/ada").json(&profile).send().await.is(200);
    let sized = |size: usize, channels: Value| {
        let mut send = with(channels);
        send["data"] = json!({"x": "x".repeat(size)});
        send
    };
    for channels in [json!(["mobilePush"]), json!(["webPush"]), json!(["webPush", "mobilePush"])] {
        let (real, tried) = service.both(&shop, &sized(4_096, json!({"channels": channels}))).await;
        real.has_problems(&[("data", "too_long")]);
        tried.has_problems(&[("data", "too_long")]);
    }
    // The inbox has room for the data, so the send is useful.
    let send = sized(4_096, json!({"channels": ["inApp", "mobilePush"]}));
    let tried = service.by(&shop, TRY).json(&send).send().await.is(200);
    let verdicts: BTreeSet<_> = tried["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["reason"] != "not_selected")
        .map(|row| [&row["channel"], &row["status"], &row["reason"]].map(Value::to_string).join(" "))
        .collect();
    let expected = [r#""inApp" "queued" null"#, r#""mobilePush" "failed" "too_large""#];
    assert_eq!(verdicts, expected.map(str::to_owned).into());
    let fits = sized(3_000, json!({"channels": ["mobilePush"]}));
    let tried = service.by(&shop, TRY).json(&fits).send().await.is(200);
    assert_eq!(tried["counts"]["mobilePush"], json!({"queued": 2}));
}
