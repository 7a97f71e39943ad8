use std::io;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc;

use super::form;

/// Maximum number of callbacks that wait to be posted. Further callbacks are lost, as can happen with Twilio.
const QUEUE: usize = 10_000;
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Report {
    pub(super) url: String,
    pub(super) params: Vec<(String, String)>,
}

/// Queue of callbacks, which are posted one after the other.
#[derive(Debug)]
pub(super) struct Callbacks(mpsc::Sender<Report>);

impl Callbacks {
    pub(super) fn new(auth_token: String) -> (Callbacks, impl Future<Output = ()>) {
        let (sender, mut reports) = mpsc::channel::<Report>(QUEUE);
        let posting = async move {
            while let Some(report) = reports.recv().await {
                let signature = signature(&auth_token, &report.url, &report.params);
                // A failed callback is not repeated.
                drop(post(&report.url, &report.params, &signature).await);
            }
        };
        (Callbacks(sender), posting)
    }

    pub(super) fn send(&self, report: Report) {
        drop(self.0.try_send(report));
    }
}

#[must_use]
pub fn params(given: &[(&str, &str)]) -> Vec<(String, String)> {
    given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Computes the value of `X-Twilio-Signature`: the HMAC-SHA1, in base64, of the URL followed by the fields in
/// the order of their names.
#[must_use]
pub fn signature(auth_token: &str, url: &str, params: &[(String, String)]) -> String {
    let mut sorted: Vec<_> = params.iter().collect();
    sorted.sort();
    let mut text = url.to_owned();
    for (name, value) in sorted {
        text.push_str(name);
        text.push_str(value);
    }
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, auth_token.as_bytes());
    STANDARD.encode(hmac::sign(&key, text.as_bytes()))
}

pub(super) async fn post(url: &str, params: &[(String, String)], signature: &str) -> io::Result<u16> {
    let request = Request::post(url)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-twilio-signature", signature)
        .body(Full::new(Bytes::from(form::write(params))))
        .map_err(io::Error::other)?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let answer = tokio::time::timeout(ANSWERED_WITHIN, client.request(request)).await?;
    Ok(answer.map_err(io::Error::other)?.status().as_u16())
}
