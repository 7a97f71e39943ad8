//! Apps, users and resources for the calls of the table.

use domain::CategoryId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::table::{PermittedCallers, Row};
use crate::client::Call;
use crate::service::{App, Service, plain_send};

/// A value that is neither the id nor the identifier of any resource.
const NOBODY: &str = "9007199254740991";

/// Two apps with the same users. Creates new resources for each call.
pub(super) struct Fixtures<'a> {
    pub(super) service: &'a Service,
    pub(super) shop: App,
    bank: App,
    made: u32,
}

/// A browser's subscription, with the keys of RFC 8291, appendix A.
pub(super) fn subscription() -> Value {
    json!({
        "endpoint": "https://fcm.googleapis.com/fcm/send/{new}",
        "expirationTime": null,
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    })
}

impl<'a> Fixtures<'a> {
    pub(super) async fn new(service: &'a Service) -> Fixtures<'a> {
        let (shop, bank) = (service.app("shop").await, service.app("bank").await);
        for app in [&shop, &bank] {
            for user in ["ada", "bob"] {
                service.by(app, "POST /v3/users").json(&json!({"identifier": user})).send().await.is(200);
            }
        }
        let mut fixtures = Fixtures { service, shop, bank, made: 0 };
        fixtures.topic().await;
        let category = fixtures.category().await;
        let choice = json!({"preference": [{"categoryId": category, "channels": [{"channel": "sms", "enabled": true}]}]});
        service.of(&fixtures.shop, "ada", "PATCH /v3/preferences").json(&choice).send().await.is(200);
        fixtures
    }

    /// Builds the call with the credentials of this caller. Every caller except `App` acts as ada.
    pub(super) fn call(&self, by: PermittedCallers, path: &str) -> Call {
        match by {
            PermittedCallers::App => self.service.by(&self.shop, path),
            PermittedCallers::User => self.service.of(&self.shop, "ada", path),
            PermittedCallers::AppForUser => {
                self.service.by(&self.shop, path).header("X-SERVICE-USER-ID", "ada")
            }
            PermittedCallers::Anybody => self.service.call(path),
            PermittedCallers::AppForUserInQuery => {
                let joint = if path.contains('?') { '&' } else { '?' };
                self.service.by(&self.shop, &format!("{path}{joint}userIdentifier=ada"))
            }
        }
    }

    /// Fills the placeholders of a call with new resources.
    pub(super) async fn fill(&mut self, call: &str) -> String {
        let mut call = call.to_owned();
        for name in [
            "{item}",
            "{request}",
            "{category}",
            "{topic}",
            "{open}",
            "{user}",
            "{new}",
            "{device}",
            "{browser}",
            "{phone}",
            "{run}",
            "{key}",
            "{token}",
        ] {
            if call.contains(name) {
                call = call.replace(name, &self.make(name).await);
            }
        }
        call
    }

    /// Fills the placeholders of a body with new resources.
    pub(super) async fn fill_body(&mut self, body: Value) -> Value {
        let mut text = body.to_string();
        if text.contains("{category}") {
            text = text.replace("\"{category}\"", &self.category().await.to_string());
        }
        if text.contains("{new}") {
            text = text.replace("{new}", &self.new_name());
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Builds calls that must all get the same answer: one by each caller who must not learn that the resource exists, and some
    /// with unknown ids.
    pub(super) async fn foreign(&mut self, row: &Row, call: &str) -> Vec<Call> {
        let own = self.fill(call).await;
        let (service, shop, bank) = (self.service, &self.shop, &self.bank);
        let mut calls = Vec::new();
        if row.by.contains(&PermittedCallers::App) {
            calls.push(service.by(bank, &own));
        }
        if row.by.contains(&PermittedCallers::User) {
            calls.push(service.of(bank, "ada", &own));
            calls.push(service.of(shop, "bob", &own));
            calls.push(service.of(shop, "nobody", &own));
            calls.push(service.by(shop, &own).header("X-SERVICE-USER-ID", "bob"));
        }
        for nobody in [NOBODY, &Uuid::from_u128(1).to_string()] {
            if row.calls[0].contains("{request}") || nobody == NOBODY {
                let mut absent = call.to_owned();
                for name in ["{item}", "{request}", "{category}", "{topic}", "{user}", "{browser}"] {
                    absent = absent.replace(name, nobody);
                }
                calls.push(self.call(row.by[0], &absent));
            }
        }
        calls
    }

    async fn make(&mut self, name: &str) -> String {
        match name {
            "{item}" => {
                self.service.deliver(&self.shop, "ada", 1).await;
                let list = self.service.list(&self.shop, "ada", "limit=20").await;
                let ids = list["data"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap());
                ids.max().unwrap().to_string()
            }
            "{request}" => {
                let id = self.service.sent(&self.shop, &plain_send(&["bob"])).await;
                self.service.request(&self.shop, &id).await;
                id
            }
            "{run}" | "{key}" => {
                let content = json!({"inApp": {"title": "Welcome"}});
                self.service.template(&self.shop, "welcome", None, content).await;
                let run = json!({
                    "notification": {"workflow": {"identifier": "welcome", "cancellationKey": "order-7"}},
                    "sendTo": {"recipients": ["bob"]},
                });
                self.service.by(&self.shop, "POST /v3/notifications").json(&run).send().await.is(202);
                if name == "{key}" { "order-7" } else { "welcome" }.to_owned()
            }
            "{category}" => self.category().await.to_string(),
            "{topic}" | "{open}" => self.topic().await,
            "{token}" => {
                let category = CategoryId(self.category().await);
                self.service.unsubscribe_token(&self.shop, "ada", category).await
            }
            "{user}" => {
                let identifier = self.new_name();
                let call = self.service.by(&self.shop, "POST /v3/users");
                call.json(&json!({"identifier": identifier})).send().await.is(200);
                identifier
            }
            "{browser}" => {
                let device = self.new_name();
                let path = format!("POST /v3/devices/{device}/webPushSubscription");
                let body = self.fill_body(subscription()).await;
                self.service.of(&self.shop, "ada", &path).json(&body).send().await.is(200);
                device
            }
            "{phone}" => {
                let device = self.new_name();
                let connect = self.service.of(&self.shop, "ada", "POST /v3/sdk/connect");
                let body = json!({"deviceType": "android", "pushToken": device});
                connect.header("X-SERVICE-DEVICE-ID", &device).json(&body).send().await.is(200);
                device
            }
            _ => self.new_name(),
        }
    }

    async fn category(&mut self) -> i64 {
        let body = json!({"identifier": self.new_name(), "name": "News"});
        let created = self.service.by(&self.shop, "POST /v3/categories").json(&body).send().await.is(200);
        created["id"].as_i64().unwrap()
    }

    /// Creates an open topic to which ada subscribes.
    async fn topic(&mut self) -> String {
        let topic = self.new_name();
        let put = self.service.by(&self.shop, &format!("PUT /v3/topics/{topic}"));
        put.json(&json!({"open": true})).send().await.is(200);
        let subscribe = self.service.by(&self.shop, &format!("POST /v3/topics/{topic}/subscriptions"));
        subscribe.json(&json!({"add": ["ada"]})).send().await.is(200);
        topic
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("made-{}", self.made)
    }
}
