//! Calls of the HTTP API.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::eventually;

const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The gateway asks for the same request again: it did not get it in time, or did not carry it out.
pub(crate) fn is_busy(status: u16) -> bool {
    matches!(status, 408 | 503)
}

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

    /// Repeats the request while the gateway answers 503, or 408 because a busy machine was slow to send it.
    pub(crate) async fn answer(request: RequestBuilder, expected: u16) -> Value {
        eventually(SOON, "an answer", async || {
            let (status, body) = Self::try_once(request.try_clone().unwrap()).await?;
            assert!(status == expected || is_busy(status), "{status}: {body}");
            (status == expected).then_some(body)
        })
        .await
    }

    /// One try: the status and what came with it. None where no whole answer came.
    pub(crate) async fn try_once(request: RequestBuilder) -> Option<(u16, Value)> {
        let answer = request.send().await.ok()?;
        let (status, body) = (answer.status().as_u16(), answer.bytes().await.ok()?);
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.origin));
        request.header("X-SERVICE-API-KEY", &self.key).header("X-SERVICE-API-SECRET", &self.secret)
    }
}
