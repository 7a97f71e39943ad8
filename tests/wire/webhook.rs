//! Webhooks, verified by the Standard Webhooks library.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use hyper::body::Bytes;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use service_kit::{clock, install_crypto_provider};
use stand_ins::http::{Handler, HttpServer, HttpSettings, Reply, status};
use webhooks::call::Message;
use webhooks::{Caller, Secret};
use worker::Outbound;

use crate::python::ask;

/// A server that stores the last call.
#[derive(Default)]
struct LastCall(Mutex<Option<(BTreeMap<String, String>, Bytes)>>);

impl Handler for LastCall {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
        };
        let headers = request.headers().iter().map(header).collect();
        *self.0.lock().unwrap() = Some((headers, request.body().clone()));
        Reply::Answer(status(204))
    }
}

#[tokio::test]
async fn the_library_of_standard_webhooks_accepts_each_live_secret_and_no_other() {
    install_crypto_provider();
    let kept = Arc::<LastCall>::default();
    let server = HttpServer::start(HttpSettings::default(), kept.clone()).await.unwrap();
    let secrets = [Secret::generate().unwrap(), Secret::generate().unwrap()];
    let other = Secret::generate().unwrap();
    let reported = json!({"type": "delivery.sent", "data": {"recipient": "Grüße 東京", "attempt": 1}});
    let body = reported.to_string();
    let message = Message { id: clock::new_id(), body: &body, secrets: &secrets };
    let caller = Caller::new(Outbound::new(true), Duration::from_secs(10)).unwrap();
    assert!(caller.post(&server.url(), message).await.is_accepted());

    let (headers, body) = kept.0.lock().unwrap().take().unwrap();
    let texts: Vec<_> =
        [&secrets[0], &secrets[1], &other].map(|secret| secret.text().expose_secret().to_owned()).into();
    let question = json!({"headers": headers, "body": STANDARD.encode(&body), "secrets": texts});
    let answer = ask("webhook.py", &question).await;
    assert_eq!((&answer["verdicts"][0], &answer["verdicts"][1]), (&reported, &reported));
    assert_eq!(answer["verdicts"][2], json!("No matching signature found"));

    let mut changed: Value = question.clone();
    changed["body"] = json!(STANDARD.encode(b"{}"));
    let answer = ask("webhook.py", &changed).await;
    assert!(answer["verdicts"].as_array().unwrap().iter().all(Value::is_string), "{answer}");
}
