//! Callers of two gateways: where one does not answer, they ask the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior};

/// What a caller waits for one answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Of one call, over both gateways. One of them is always there.
const TRIES: usize = 6;
/// From one try to the next.
const BACK_OFF: Duration = Duration::from_millis(50);

/// The app's backend.
#[derive(Clone)]
pub(crate) struct Callers {
    client: Client,
    origins: Vec<String>,
    key: String,
    secret: String,
    tries: Arc<[AtomicUsize]>,
}

/// A call that is made anew with every try.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// The user that it is made for.
    pub(crate) user: Option<&'a str>,
    pub(crate) idempotency_key: Option<&'a str>,
    pub(crate) body: Option<&'a Value>,
}

impl Callers {
    /// `app` is what `tidings app create --json` prints.
    pub(crate) fn new(origins: &[String], app: &Value) -> Callers {
        service_kit::install_crypto_provider();
        let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
        let text = |name: &str| app[name].as_str().unwrap().to_owned();
        let tries = (0..TRIES).map(|_| AtomicUsize::new(0)).collect();
        Callers { client, origins: origins.to_vec(), key: text("apiKey"), secret: text("apiSecret"), tries }
    }

    /// Makes a call, first of the gateway with this number.
    ///
    /// # Panics
    /// Where the call fails for good.
    pub(crate) async fn call(&self, first: usize, call: Call<'_>) -> (u16, Value) {
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
        panic!("{} {} failed for good: {heard:#?}", call.method, call.path);
    }

    /// How many calls were tried once, twice, and so on.
    pub(crate) fn tries(&self) -> Vec<usize> {
        self.tries.iter().map(|tried| tried.load(Ordering::Relaxed)).collect()
    }

    fn request(&self, origin: &str, call: Call<'_>) -> RequestBuilder {
        let method: Method = call.method.parse().unwrap();
        let mut request = self.client.request(method, format!("{origin}{}", call.path));
        request = request.header("X-SERVICE-API-KEY", &self.key).header("X-SERVICE-API-SECRET", &self.secret);
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

/// Ticks at this pace, however long what happens between takes.
pub(crate) fn pace(span: Duration) -> Interval {
    let mut pace = tokio::time::interval(span);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}
