//! Push messages to phones. Each bare client uses one credential for all messages. The client of APNs makes all calls over one
//! connection.

use domain::content::{Content, PushContent};
use domain::{Channel, UserNumber};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Client;
use serde_json::{Value, json};
use service_kit::clock;
use stand_ins::apns::{ApnsSettings, ApnsStandIn};
use stand_ins::fcm::FcmStandIn;
use stand_ins::outbox::{Capture, Outbox};

use super::http::{Http, repeat};
use super::{Subject, separate_secrets};
use crate::role::Role;

const PEOPLE: i64 = 1_000;
const APNS_HEADERS: [&str; 6] =
    ["apns-id", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id"];
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

fn content() -> Content {
    Content::Push(PushContent {
        title: Some("Your order is on its way".to_owned()),
        body: Some("Order 4711 left our house this morning and arrives tomorrow before noon.".to_owned()),
        url: Some("https://shop.example.com/orders/4711".to_owned()),
        ..PushContent::default()
    })
}

pub(super) async fn apns() -> Subject {
    let outbox = Outbox::in_memory();
    let stand_in = ApnsStandIn::start(ApnsSettings::default(), outbox.clone()).await.unwrap();
    let settings = stand_in.provider_settings();
    let url = settings["baseUrl"].as_str().unwrap().to_owned();
    let authorization = format!("bearer {}", provider_token(&settings));
    let client = Client::builder().http2_prior_knowledge().build().unwrap();
    let again = move |client: &Client, message: &Capture| {
        let token = message.to[0].strip_prefix("apns:").unwrap();
        let request = client.post(format!("{url}/3/device/{token}"));
        let request = request.header("authorization", &authorization).body(message.raw.clone());
        repeat(request, message, &APNS_HEADERS)
    };
    Subject {
        name: "mobile push: APNs",
        channel: Channel::MobilePush,
        role: Role::MobilePush,
        kind: "apns",
        settings: separate_secrets(settings, &["key"]),
        environment: Vec::new(),
        targets: (1..=PEOPLE).map(|number| (UserNumber(number), format!("apns:{number:064x}"))).collect(),
        content: content(),
        outbox,
        bare: Box::new(Http::new(client, stand_in, again)),
    }
}

fn provider_token(settings: &Value) -> String {
    let key = EncodingKey::from_ec_pem(settings["key"].as_str().unwrap().as_bytes()).unwrap();
    let kid = settings["keyId"].as_str().map(str::to_owned);
    let header = Header { kid, typ: None, ..Header::new(Algorithm::ES256) };
    encode(&header, &json!({"iss": settings["teamId"], "iat": seconds()}), &key).unwrap()
}

pub(super) async fn fcm() -> Subject {
    let outbox = Outbox::in_memory();
    let stand_in = FcmStandIn::start(0, outbox.clone()).await.unwrap();
    let settings = stand_in.provider_settings();
    let client = Client::new();
    let project = settings["serviceAccount"]["project_id"].as_str().unwrap();
    let url = format!("{}/v1/projects/{project}/messages:send", settings["baseUrl"].as_str().unwrap());
    let access_token = access_token(&client, &settings["serviceAccount"]).await;
    let again = move |client: &Client, message: &Capture| {
        let request = client.post(&url).bearer_auth(&access_token).body(message.raw.clone());
        repeat(request, message, &["content-type"])
    };
    Subject {
        name: "mobile push: FCM",
        channel: Channel::MobilePush,
        role: Role::MobilePush,
        kind: "fcm",
        settings: separate_secrets(settings, &["serviceAccount"]),
        environment: Vec::new(),
        targets: (1..=PEOPLE).map(|number| (UserNumber(number), format!("fcm:token-{number:020}"))).collect(),
        content: content(),
        outbox,
        bare: Box::new(Http::new(client, stand_in, again)),
    }
}

async fn access_token(client: &Client, account: &Value) -> String {
    let key = EncodingKey::from_rsa_pem(account["private_key"].as_str().unwrap().as_bytes()).unwrap();
    let kid = account["private_key_id"].as_str().map(str::to_owned);
    let (issued, url) = (seconds(), account["token_uri"].as_str().unwrap());
    let claims = json!({
        "iss": account["client_email"], "scope": SCOPE, "aud": url, "iat": issued, "exp": issued + 3_600,
    });
    let assertion = encode(&Header { kid, ..Header::new(Algorithm::RS256) }, &claims, &key).unwrap();
    let form = format!("grant_type={}&assertion={assertion}", GRANT.replace(':', "%3A"));
    let request = client.post(url).header("content-type", "application/x-www-form-urlencoded").body(form);
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    answer["access_token"].as_str().unwrap().to_owned()
}

fn seconds() -> i64 {
    clock::now().millis().div_euclid(1_000)
}
