//! Calls of the HTTP API.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::eventually;

use crate::send::{USERS, address, user};

/// What a client waits for one answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(30);

/// The app's backend.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    origin: String,
    key: String,
    secret: String,
}

impl Api {
    /// `app` is what `tidings app create --json` prints.
    pub(crate) fn new(origin: String, app: &Value) -> Api {
        service_kit::install_crypto_provider();
        let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
        let text = |name: &str| app[name].as_str().unwrap().to_owned();
        Api { client, origin, key: text("apiKey"), secret: text("apiSecret") }
    }

    /// Waits until it serves.
    pub(crate) async fn ready(&self) {
        let url = format!("{}/readyz", self.origin);
        eventually(SOON, "the API is ready", async || {
            let answer = self.client.get(&url).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
    }

    /// Creates every user, with an email address.
    pub(crate) async fn create_users(&self) {
        for number in 0..USERS {
            let path = format!("/v3/users/{}", user(number));
            let answer = self.call(Method::PUT, &path).json(&json!({"email": address(number)}));
            assert_eq!(answer.send().await.unwrap().status(), 200);
        }
    }

    /// One attempt to send: the request's id where it was confirmed, None where it is to be repeated.
    pub(crate) async fn send(&self, body: &Value, idempotency_key: &str) -> Option<String> {
        let request = self.call(Method::POST, "/v3/notifications").header("Idempotency-Key", idempotency_key);
        // No connection, or one that broke: whether the send is in the log, nobody knows.
        let answer = request.json(body).send().await.ok()?;
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.ok()?;
        match status {
            202 => Some(body["requestId"].as_str().unwrap().to_owned()),
            503 => None,
            other => panic!("{other}: {body}"),
        }
    }

    /// A page of a user's inbox.
    pub(crate) async fn inbox(&self, user: &str, cursor: Option<&str>) -> Value {
        let mut query = vec![("limit", "20")];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let request = self.call(Method::GET, "/v3/notifications").query(&query);
        Self::answer(request.header("X-SERVICE-USER-ID", user)).await
    }

    /// Anything else that is read.
    pub(crate) async fn get(&self, path: &str) -> Value {
        Self::answer(self.call(Method::GET, path)).await
    }

    async fn answer(request: RequestBuilder) -> Value {
        let answer = request.send().await.unwrap();
        let (status, body) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.origin));
        request.header("X-SERVICE-API-KEY", &self.key).header("X-SERVICE-API-SECRET", &self.secret)
    }
}
