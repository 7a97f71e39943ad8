//! Calls and answers.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;

use crate::contract::{Contract, Exchange};

/// A call that is being built.
pub(crate) struct Call {
    request: RequestBuilder,
    what: String,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    what: String,
}

pub(crate) fn call(client: &Client, method: &str, url: &str) -> Call {
    let method = method.parse().unwrap();
    Call { what: format!("{method} {url}"), request: client.request(method, url) }
}

/// Sends a call, and repeats it while the gateway answers 503, which can happen on a busy machine.
pub(crate) async fn repeated(call: impl Fn() -> Call) -> Answer {
    for _ in 0..20 {
        let answer = call().send().await;
        if answer.status != 503 {
            return answer;
        }
    }
    call().send().await
}

impl Call {
    /// Adds a header. A second header with the same name is sent as well.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Call {
        let name: HeaderName = name.parse().unwrap();
        self.request = self.request.header(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Call {
        self.request = self.request.json(body);
        self
    }

    /// Sets the body to these bytes, with the media type `media`.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>, media: &str) -> Call {
        self.request = self.request.header("content-type", media).body(body.into());
        self
    }

    /// Sends the call and checks the answer against the OpenAPI document.
    pub(crate) async fn send(self) -> Answer {
        let (client, request) = self.request.build_split();
        let request = request.unwrap();
        let (method, url) = (request.method().clone(), request.url().clone());
        let contract = Contract::of(&client, &url).await;
        let response = client.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let exchange = Exchange { method: &method, path: url.path(), status, headers: &headers, body: &text };
        contract.check(&exchange);
        let body = match headers.get("content-type") {
            None => Value::Null,
            Some(media) if media == "application/json" => serde_json::from_str(&text).unwrap_or_default(),
            Some(_) => Value::String(text),
        };
        Answer { status, headers, body, what: self.what }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Asserts that the answer has this status, and returns its body.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.what, self.body);
        self.body
    }

    /// Asserts that the answer to a change of several notifications is a 200 with this number. A change that lists do not show in
    /// time may be answered 202, without the number.
    #[track_caller]
    pub(crate) fn has_updated(&self, number: u64) {
        assert_eq!(self.body["statusCode"], self.status, "{}: {}", self.what, self.body);
        // If nothing changes, there is nothing to wait for.
        if self.status != 202 || number == 0 {
            let found = (self.status, self.body["updated"].as_u64());
            assert_eq!(found, (200, Some(number)), "{}: {}", self.what, self.body);
        }
    }

    /// Asserts that the answer is this error, and that its body has exactly the members `status`, `message` and `code`. Do not
    /// use this for a 400, which has other members; see [`has_problems`](Self::has_problems).
    #[track_caller]
    pub(crate) fn fails(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}: {}", self.what, self.body);
        let members: Vec<_> = self.body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["code", "message", "status"], "{}", self.what);
        assert_eq!(self.body["status"], "error");
        assert_eq!(self.body["code"], code, "{}: {}", self.what, self.body);
        assert!(self.body["message"].is_string());
    }

    /// Asserts a 400 with exactly these problems in this order, each given as field and code.
    #[track_caller]
    pub(crate) fn has_problems(&self, expected: &[(&str, &str)]) {
        assert_eq!(self.status, 400, "{}: {}", self.what, self.body);
        let members: Vec<_> = self.body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["errors", "message", "status"], "{}", self.what);
        assert_eq!(self.body["status"], "error");
        let errors = self.body["errors"].as_array().unwrap();
        let found: Vec<_> = errors
            .iter()
            .map(|error| (error["field"].as_str().unwrap(), error["code"].as_str().unwrap()))
            .collect();
        assert_eq!(found, expected, "{}: {}", self.what, self.body);
        let messages: Vec<_> = errors.iter().map(|error| error["message"].clone()).collect();
        assert_eq!(self.body["message"], Value::Array(messages), "{}", self.what);
    }
}
