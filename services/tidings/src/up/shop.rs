//! The demo page: a shop with the inbox of a user. The page never sees the API secret.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use service_kit::Context;
use stand_ins::http::{
    Bytes, Handler, HttpServer, HttpSettings, Reply, Request, Response, json as answer, status,
};
use stand_ins::interface;
use tokio::sync::mpsc;

const WAITING: usize = 64;
const SENT_WITHIN: Duration = Duration::from_secs(10);
const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("../../../../clients/demo/index.html")),
    ("/shop.js", "text/javascript; charset=utf-8", include_str!("../../../../clients/demo/shop.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../../../../clients/demo/icon.svg")),
    ("/shop.css", "text/css; charset=utf-8", include_str!("../../../../clients/demo/shop.css")),
];

#[derive(Clone)]
pub(super) struct ShopSettings {
    pub(super) api: String,
    pub(super) api_key: String,
    pub(super) api_secret: String,
    pub(super) prefix: String,
}

#[derive(Deserialize)]
struct Order {
    user: String,
    title: String,
    message: Option<String>,
    url: Option<String>,
    category: Option<String>,
}

struct Shop {
    settings: ShopSettings,
    orders: mpsc::Sender<Order>,
}

/// The backend ends with the services.
pub(super) async fn start(
    context: &Context,
    settings: ShopSettings,
    port: u16,
) -> anyhow::Result<HttpServer> {
    let (orders, waiting) = mpsc::channel(WAITING);
    let client = Client::builder().timeout(SENT_WITHIN).build().context("the demo's HTTP client")?;
    let sending = send_all(client, settings.clone(), waiting);
    let stopped = context.tasks.token().clone();
    context.spawn("demo shop", async move { stopped.run_until_cancelled(sending).await.unwrap_or(Ok(())) });
    let server = HttpServer::start(
        HttpSettings { port, ..HttpSettings::default() },
        Arc::new(Shop { settings, orders }),
    )
    .await;
    server.context("cannot start the demo page")
}

impl Handler for Shop {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        if !interface::is_own_host(request.headers()) {
            let mut refused = status(403);
            *refused.body_mut() = Bytes::from_static(interface::FOREIGN_HOST.as_bytes());
            return Reply::Answer(refused);
        }
        let path = request.uri().path();
        Reply::Answer(match (request.method().as_str(), path) {
            ("GET", "/settings.json") => {
                answer(200, &json!({"url": self.settings.api, "apiKey": self.settings.api_key}))
            }
            ("GET", _) => match FILES.iter().find(|(name, _, _)| *name == path) {
                Some((_, media, text)) => self.file(media, text),
                None => status(404),
            },
            ("POST", "/send") => self.order(request),
            _ => status(405),
        })
    }
}

impl Shop {
    fn file(&self, media: &str, text: &'static str) -> Response<Bytes> {
        let mut response = status(200);
        let policy = format!("default-src 'self' {}; frame-ancestors 'none'", self.settings.api);
        let headers =
            [("content-type", media), ("content-security-policy", &policy), ("cache-control", "no-store")];
        for (name, value) in headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
        *response.body_mut() = Bytes::from_static(text.as_bytes());
        response
    }

    /// Accepts only requests with a JSON body, which browsers do not send across origins.
    fn order(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let media = request.headers().get("content-type").and_then(|media| media.to_str().ok());
        if !media.is_some_and(|media| media.starts_with("application/json")) {
            return answer(415, &json!({"message": "the body must be application/json"}));
        }
        match serde_json::from_slice::<Order>(request.body()) {
            Err(error) => answer(400, &json!({"message": error.to_string()})),
            Ok(order) => match self.orders.try_send(order) {
                Ok(()) => answer(202, &json!({})),
                Err(_) => answer(503, &json!({"message": "too many notifications wait; try again"})),
            },
        }
    }
}

async fn send_all(
    client: Client,
    settings: ShopSettings,
    mut waiting: mpsc::Receiver<Order>,
) -> anyhow::Result<()> {
    while let Some(order) = waiting.recv().await {
        if let Err(error) = send(&client, &settings, &order).await {
            tracing::warn!(%error, "cannot send a notification of the demo page; it is lost");
        }
    }
    Ok(())
}

async fn send(client: &Client, settings: &ShopSettings, order: &Order) -> reqwest::Result<()> {
    let ShopSettings { api, api_key, api_secret, prefix } = settings;
    let mut body: Value = json!({
        "notification": {"title": order.title, "message": order.message, "url": order.url},
        "sendTo": {"recipients": [{"identifier": order.user}]},
    });
    if let Some(category) = &order.category {
        body["category"] = json!(category);
    }
    let call = client
        .post(format!("{api}/v3/notifications"))
        .header(format!("{prefix}-API-KEY"), api_key)
        .header(format!("{prefix}-API-SECRET"), api_secret)
        .json(&body);
    call.send().await?.error_for_status().map(drop)
}
