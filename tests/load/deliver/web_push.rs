//! Push messages to browsers. The bare client posts encrypted messages with reqwest, and uses one signed token for all.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Channel;
use domain::content::{Content, PushContent};
use domain::web_push::Subscription;
use reqwest::Client;
use serde_json::{Value, json};
use stand_ins::http::HttpSettings;
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::push_service::PushServiceStandIn;
use store::directory::web_push::BrowserKeys;

use super::Subject;
use super::http::{Http, repeat};
use crate::installation::Installation;
use crate::role::Role;

const PEOPLE: usize = 1_000;
/// Headers that the push service gets in addition to the body.
const HEADERS: [&str; 6] = ["authorization", "content-encoding", "content-type", "ttl", "urgency", "topic"];

pub(super) async fn subject(installation: &Installation) -> Subject {
    let outbox = Outbox::in_memory();
    let stand_in = PushServiceStandIn::start(HttpSettings::default(), outbox.clone()).await.unwrap();
    let settings = json!({"subject": "mailto:push@example.com"});
    credentials::vapid::create(&installation.store, &installation.servers.master_key, installation.app)
        .await
        .unwrap();
    let (mut targets, mut keys) = (Vec::new(), HashMap::new());
    for number in 0..PEOPLE {
        let browser = stand_in.subscribe(None).unwrap();
        let endpoint = browser.endpoint().to_owned();
        let of_browser = keys_of(&browser.subscription());
        let (app, user) = (installation.app, format!("person-{number}"));
        let subscription = Subscription {
            endpoint: endpoint.clone(),
            p256dh: of_browser.p256dh.clone(),
            auth: of_browser.auth.clone(),
            expires_at: None,
        };
        installation.store.directory().subscribe(app, &user, "browser", &subscription).await.unwrap();
        let user = installation.store.directory().find_user(app, &user).await.unwrap().unwrap();
        targets.push((user.number, endpoint.clone()));
        keys.insert(endpoint, of_browser);
    }
    let again = move |client: &Client, message: &Capture| {
        let (endpoint, plaintext) = (&message.to[0], message.summary.text.as_deref().unwrap());
        let body = web_push::encrypt(&keys[endpoint], plaintext.as_bytes()).unwrap();
        repeat(client.post(endpoint).body(body), message, &HEADERS)
    };
    Subject {
        name: "web push",
        channel: Channel::WebPush,
        role: Role::WebPush,
        kind: "vapid",
        settings: (settings, json!({})),
        environment: vec![("TIDINGS_WEB_PUSH__HOSTS", stand_in.url())],
        targets,
        content: Content::Push(PushContent {
            title: Some("Your order is on its way".to_owned()),
            body: Some("Order 4711 left our house this morning and arrives tomorrow before noon.".to_owned()),
            url: Some("https://shop.example.com/orders/4711".to_owned()),
            ..PushContent::default()
        }),
        outbox,
        bare: Box::new(Http::new(Client::new(), stand_in, again)),
    }
}

fn keys_of(subscription: &Value) -> BrowserKeys {
    let key = |name| URL_SAFE_NO_PAD.decode(subscription["keys"][name].as_str().unwrap()).unwrap();
    BrowserKeys { p256dh: key("p256dh"), auth: key("auth") }
}
