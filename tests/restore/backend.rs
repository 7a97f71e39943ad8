//! What the app's backend calls.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use testkit::eventually;

use crate::api::Api;

const SOON: Duration = Duration::from_secs(30);

impl Api {
    /// Waits until it serves.
    pub(crate) async fn ready(&self) {
        eventually(SOON, "the API is ready", async || {
            let answer = self.call(Method::GET, "/readyz").send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
    }

    /// Returns the request's id. Repeated under its key, a send stays one.
    pub(crate) async fn send(&self, key: &str, body: &Value) -> String {
        let call = self.call(Method::POST, "/v3/notifications").header("Idempotency-Key", key);
        let answer = Self::answer(call.json(body), 202).await;
        answer["requestId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn request(&self, id: &str) -> Value {
        Self::answer(self.call(Method::GET, &format!("/v3/requests/{id}")), 200).await
    }
}
