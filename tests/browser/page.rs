//! A website that uses our service worker, open in Chromium. The user has allowed notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use serde_json::{Value, json};
use stand_ins::http::{Handler, HttpServer, HttpSettings, Reply, status};
use testkit::eventually;

use crate::chromium::Chromium;

const SOON: Duration = Duration::from_secs(30);
const SERVICE_WORKER: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/web-push/service-worker.js"));
/// Service worker of a website that imports our file into its own.
const IMPORTING: &str = "importScripts('/tidings-service-worker.js');";
const PAGE: &str = "<!doctype html><title>The shop</title>";

/// Script that clicks on a notification, and returns what the service worker did.
const CLICK: &str = r#"(async () => {
  const did = {opened: [], focused: []};
  // Replace these calls, which browsers allow only after a real click.
  self.clients.openWindow = async (url) => { did.opened.push(url); return null; };
  WindowClient.prototype.focus = async function () { did.focused.push(this.url); return this; };
  const [notification] = await self.registration.getNotifications({tag: TAG});
  const click = new NotificationEvent('notificationclick', {notification});
  let done;
  click.waitUntil = (promise) => { done = promise; };
  self.dispatchEvent(click);
  await done;
  did.left = (await self.registration.getNotifications({tag: TAG})).length;
  return did;
})()"#;

#[derive(Default)]
struct Site {
    /// Number of reported clicks.
    clicks: AtomicUsize,
}

impl Handler for Site {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let file = |kind: &'static str, text: &'static str| {
            let mut response = Response::new(Bytes::from_static(text.as_bytes()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            Reply::Answer(response)
        };
        match request.uri().path() {
            "/tidings-service-worker.js" => file("text/javascript", SERVICE_WORKER),
            "/sw.js" => file("text/javascript", IMPORTING),
            "/favicon.ico" => Reply::Answer(status(204)),
            path if path.starts_with("/click/") => {
                self.clicks.fetch_add(1, Ordering::Relaxed);
                Reply::Answer(status(204))
            }
            _ => file("text/html", PAGE),
        }
    }
}

/// A page that is open in Chromium.
pub(crate) struct Page {
    pub(crate) chromium: Chromium,
    pub(crate) origin: String,
    site: Arc<Site>,
    _server: HttpServer,
    session: String,
    registration: String,
}

impl Page {
    /// Opens the page with the service worker at `worker`.
    pub(crate) async fn open(worker: &str) -> Page {
        let site = Arc::new(Site::default());
        let handler = Arc::clone(&site);
        let server = HttpServer::start(HttpSettings::default(), handler).await.unwrap();
        let origin = server.url();
        let mut chromium = Chromium::start().await;
        let allowed = json!({"origin": origin, "permissions": ["notifications"]});
        chromium.call("Browser.grantPermissions", allowed, None).await;
        let target = chromium.call("Target.createTarget", json!({"url": origin}), None).await;
        let session = chromium.attach(target["targetId"].as_str().unwrap()).await;
        let here = format!("{origin}/");
        eventually(SOON, "the page is open", async || {
            let script = "document.readyState === 'complete' && location.href";
            (chromium.evaluate(&session, script).await == json!(here)).then_some(())
        })
        .await;
        assert_eq!(chromium.evaluate(&session, "Notification.permission").await, "granted");
        let register = format!(
            "navigator.serviceWorker.register('{worker}').then(() => navigator.serviceWorker.ready).then(() => true)"
        );
        assert_eq!(chromium.evaluate(&session, &register).await, true);
        chromium.call("ServiceWorker.enable", json!({}), Some(&session)).await;
        let known = chromium.event("the worker is registered", |event| {
            event["params"]["registrations"][0]["registrationId"].is_string()
        });
        let known = known.await;
        let registration = known["params"]["registrations"][0]["registrationId"].as_str().unwrap().to_owned();
        // Observe when notifications are displayed. If `getNotifications` is called while Chromium is about to display one,
        // Chromium treats that notification as closed.
        for (method, params) in [
            ("BackgroundService.startObserving", json!({"service": "notifications"})),
            ("BackgroundService.setRecording", json!({"service": "notifications", "shouldRecord": true})),
        ] {
            chromium.call(method, params, Some(&session)).await;
        }
        Page { chromium, origin, site, _server: server, session, registration }
    }

    /// Number of clicks that were reported to the site.
    pub(crate) fn clicks(&self) -> usize {
        self.site.clicks.load(Ordering::Relaxed)
    }

    /// Passes a message to the service worker, as if it had arrived by push, and waits until its notification is displayed.
    pub(crate) async fn push(&mut self, message: &str) {
        let params = json!({"origin": self.origin, "registrationId": self.registration, "data": message});
        self.chromium.call("ServiceWorker.deliverPushMessage", params, Some(&self.session)).await;
        let is_shown = |event: &Value| {
            event["params"]["backgroundServiceEvent"]["eventName"] == "Notification displayed"
        };
        self.chromium.event("a notification is displayed", is_shown).await;
    }

    /// Evaluates a script in the page, and returns the value of its promise.
    pub(crate) async fn evaluate(&mut self, script: &str) -> Value {
        self.chromium.evaluate(&self.session, script).await
    }

    /// Waits until a script returns true.
    pub(crate) async fn until_true(&mut self, what: &str, script: &str) {
        eventually(SOON, what, async || (self.evaluate(script).await == true).then_some(())).await;
    }

    /// Returns the notifications that are displayed.
    pub(crate) async fn notifications(&mut self) -> Vec<Value> {
        let script = "navigator.serviceWorker.ready.then((worker) => worker.getNotifications()).then((shown) => \
            shown.map(({title, body, icon, tag, data}) => ({title, body, icon, tag, data})))";
        self.chromium.evaluate(&self.session, script).await.as_array().unwrap().clone()
    }

    /// Clicks on the notification with this tag. Returns the URLs that were opened and focused, and the number of remaining
    /// notifications.
    pub(crate) async fn click(&mut self, tag: &str) -> Value {
        let chromium = &mut self.chromium;
        let worker = eventually(SOON, "the service worker runs", async || {
            let targets = chromium.call("Target.getTargets", json!({}), None).await;
            let targets = targets["targetInfos"].as_array().unwrap().clone();
            targets.into_iter().find(|target| target["type"] == "service_worker")
        });
        let worker = worker.await;
        let session = chromium.attach(worker["targetId"].as_str().unwrap()).await;
        chromium.evaluate(&session, &CLICK.replace("TAG", &json!(tag).to_string())).await
    }
}
