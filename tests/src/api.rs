//! Calls of the HTTP API.

use std::time::Duration;

use domain::AppId;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::eventually;

const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(30);
const STORED_WITHIN: Duration = Duration::from_secs(60);

/// An app and its credentials.
#[derive(Clone, Debug)]
pub struct App {
    pub id: AppId,
    pub key: String,
    pub secret: String,
}

impl App {
    /// Reads the output of `tidings app create --json`.
    pub fn read(created: &str) -> App {
        let created: Value = serde_json::from_str(created).unwrap();
        let text = |name: &str| created[name].as_str().unwrap().to_owned();
        App { id: text("id").parse().unwrap(), key: text("apiKey"), secret: text("apiSecret") }
    }
}

/// Returns true for a status after which the client can repeat the request: the gateway did not receive all of it in time (408),
/// or did not process it (503).
fn is_busy(status: u16) -> bool {
    matches!(status, 408 | 503)
}

/// Client of one gateway, which makes calls as the app's backend or on behalf of a user.
#[derive(Clone)]
pub struct Api {
    client: Client,
    origin: String,
    app: App,
}

impl Api {
    /// Creates a client of the gateway at `origin`, which must not contain `/v3`.
    pub fn new(origin: &str, app: &App) -> Api {
        service_kit::install_crypto_provider();
        let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
        Api { client, origin: origin.to_owned(), app: app.clone() }
    }

    /// Returns the same client for another origin.
    #[must_use]
    pub fn at(&self, origin: &str) -> Api {
        Api { origin: origin.to_owned(), ..self.clone() }
    }

    pub fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.origin));
        request.header("X-SERVICE-API-KEY", &self.app.key).header("X-SERVICE-API-SECRET", &self.app.secret)
    }

    /// Makes the call once, and returns the status and the body. Returns None if no complete answer arrived.
    pub async fn try_once(request: RequestBuilder) -> Option<(u16, Value)> {
        let answer = request.send().await.ok()?;
        let (status, body) = (answer.status().as_u16(), answer.bytes().await.ok()?);
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Makes the call, and repeats it while the gateway answers 503, or 408 because a busy machine sent the request too slowly.
    /// Returns the body of the answer.
    ///
    /// # Panics
    /// The status is not `expected`.
    pub async fn answer(request: RequestBuilder, expected: u16) -> Value {
        eventually(SOON, "an answer", async || {
            let (status, body) = Self::try_once(request.try_clone().unwrap()).await?;
            assert!(status == expected || is_busy(status), "{status}: {body}");
            (status == expected).then_some(body)
        })
        .await
    }

    /// Reads a resource. Returns None if the gateway answers 404. Repeats the call while the gateway is busy.
    pub async fn find(&self, path: &str) -> Option<Value> {
        eventually(SOON, "an answer", async || {
            let (status, answer) = Self::try_once(self.call(Method::GET, path)).await?;
            assert!(matches!(status, 200 | 404) || is_busy(status), "{status}: {answer}");
            (!is_busy(status)).then(|| (status == 200).then_some(answer))
        })
        .await
    }

    pub async fn create_users(&self, users: &[Value]) {
        let body = json!({"users": users});
        let answer = Self::answer(self.call(Method::POST, "/v3/users/bulk").json(&body), 200).await;
        let errors = answer["data"].as_array().unwrap().iter().filter(|user| user["status"] == "error");
        assert_eq!(errors.collect::<Vec<_>>(), Vec::<&Value>::new());
    }

    /// Stores a browser's subscription.
    pub async fn subscribe(&self, user: &str, subscription: &Value) {
        let path = format!("/v3/devices/{user}/webPushSubscription");
        let call = self.call(Method::POST, &path).header("X-SERVICE-USER-ID", user);
        Self::answer(call.json(subscription), 200).await;
    }

    /// Sends a notification, and returns the id of the request. A second call with the same key does not send again.
    pub async fn send(&self, key: &str, body: &Value) -> String {
        let call = self.call(Method::POST, "/v3/notifications").header("Idempotency-Key", key);
        let answer = Self::answer(call.json(body), 202).await;
        answer["requestId"].as_str().unwrap().to_owned()
    }

    pub async fn request(&self, id: &str) -> Value {
        Self::answer(self.call(Method::GET, &format!("/v3/requests/{id}")), 200).await
    }

    /// Cancels a request. Repeats the call until the gateway finds the request, which the dispatcher stores after the 202.
    pub async fn cancel(&self, request: &str) {
        eventually(STORED_WITHIN, "the request can be cancelled", async || {
            let call = self.call(Method::DELETE, &format!("/v3/requests/{request}"));
            (call.send().await.unwrap().status() == 200).then_some(())
        })
        .await;
    }

    pub async fn erase(&self, user: &str) {
        Self::answer(self.call(Method::DELETE, &format!("/v3/users/{user}")), 202).await;
    }

    /// Reads a page of a user's inbox.
    pub async fn inbox(&self, user: &str, cursor: Option<&str>) -> Value {
        let mut query = vec![("limit", "20")];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let call = self.call(Method::GET, "/v3/notifications").query(&query);
        Self::answer(call.header("X-SERVICE-USER-ID", user), 200).await
    }
}
