//! Calls of the HTTP API.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::eventually;

const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(30);

/// The app's backend, or one of its clients that acts for a user.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    pub(crate) origin: String,
    key: String,
    secret: String,
}

impl Api {
    pub(crate) fn new(origin: &str, key: &str, secret: &str) -> Api {
        service_kit::install_crypto_provider();
        let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
        Api { client, origin: origin.to_owned(), key: key.to_owned(), secret: secret.to_owned() }
    }

    pub(crate) async fn create_users(&self, users: &[Value]) {
        let body = json!({"users": users});
        let answer = Self::answer(self.call(Method::POST, "/v3/users/bulk").json(&body), 200).await;
        let errors = answer["data"].as_array().unwrap().iter().filter(|user| user["status"] == "error");
        assert_eq!(errors.collect::<Vec<_>>(), Vec::<&Value>::new());
    }

    /// Stores a browser's subscription.
    pub(crate) async fn subscribe(&self, user: &str, subscription: &Value) {
        let path = format!("/v3/devices/{user}/webPushSubscription");
        let call = self.call(Method::POST, &path).header("X-SERVICE-USER-ID", user);
        Self::answer(call.json(subscription), 200).await;
    }

    /// Repeats what a busy machine did not get done in time.
    pub(crate) async fn answer(request: RequestBuilder, expected: u16) -> Value {
        eventually(SOON, "an answer", async || {
            let answer = request.try_clone().unwrap().send().await.unwrap();
            let (status, body) = (answer.status().as_u16(), answer.text().await.unwrap());
            assert!(status == expected || status == 503, "{status}: {body}");
            (status == expected).then(|| serde_json::from_str(&body).unwrap())
        })
        .await
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.origin));
        request.header("X-SERVICE-API-KEY", &self.key).header("X-SERVICE-API-SECRET", &self.secret)
    }
}
