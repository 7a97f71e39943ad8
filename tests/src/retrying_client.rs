//! A client of two gateways. If one gateway does not answer, the client calls the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

use crate::api::App;
use crate::pace;

/// Time limit of one try.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of tries of one call, counting the tries at both gateways. This is enough because at least one gateway is
/// always running.
const TRIES: usize = 6;
/// Interval between tries.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Client that makes the calls of the app's backend.
#[derive(Clone)]
pub struct RetryingClient {
    client: Client,
    origins: Vec<String>,
    app: App,
    tries: Arc<[AtomicUsize]>,
}

/// A call that is safe to repeat.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// The user for whom the app acts.
    pub user: Option<&'a str>,
    pub idempotency_key: Option<&'a str>,
    pub body: Option<&'a Value>,
}

impl RetryingClient {
    pub fn new(origins: &[String], app: &App) -> RetryingClient {
        service_kit::install_crypto_provider();
        let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
        let tries = (0..TRIES).map(|_| AtomicUsize::new(0)).collect();
        RetryingClient { client, origins: origins.to_vec(), app: app.clone(), tries }
    }

    /// Makes a call. The first try goes to the gateway with the number `first`, later tries alternate.
    ///
    /// # Panics
    /// Every try fails.
    pub async fn call(&self, first: usize, call: Call<'_>) -> (u16, Value) {
        let (mut pace, mut heard) = (pace(BACK_OFF), Vec::new());
        for (number, tried) in self.tries.iter().enumerate() {
            pace.tick().await;
            tried.fetch_add(1, Ordering::Relaxed);
            let origin = &self.origins[(first + number) % self.origins.len()];
            match self.request(origin, call).send().await {
                Ok(answer) if answer.status() == 503 => heard.push(answer.text().await.unwrap_or_default()),
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    match answer.json().await {
                        Ok(body) => return (status, body),
                        Err(error) => heard.push(format!("{status}, then {error:?}")),
                    }
                }
                Err(error) => heard.push(format!("{error:?}")),
            }
        }
        panic!("every try of {} {} failed: {heard:#?}", call.method, call.path);
    }

    /// Number of calls that needed at least one try, at least two tries, and so on.
    pub fn tries(&self) -> Vec<usize> {
        self.tries.iter().map(|tried| tried.load(Ordering::Relaxed)).collect()
    }

    fn request(&self, origin: &str, call: Call<'_>) -> RequestBuilder {
        let method: Method = call.method.parse().unwrap();
        let mut request = self.client.request(method, format!("{origin}{}", call.path));
        request = request
            .header("X-SERVICE-API-KEY", &self.app.key)
            .header("X-SERVICE-API-SECRET", &self.app.secret);
        if let Some(user) = call.user {
            request = request.header("X-SERVICE-USER-ID", user);
        }
        if let Some(key) = call.idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        match call.body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}
