//! Nearly valid requests.

use std::fmt::{self, Display};

use reqwest::Method;

use super::chance::Chance;
use super::json::{mutate, text, written};
use super::operation::Operation;

/// Existing resources that requests can name.
pub(crate) struct KnownResources {
    pub(crate) key: String,
    pub(crate) secret: String,
    pub(crate) items: Vec<String>,
    pub(crate) category: String,
    pub(crate) request: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Sound,
    /// The headers or the length are wrong. The connection cannot be used afterwards.
    Broken,
}

/// A request that is ready to be written to a connection.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) framing: Framing,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    /// Builds a random request from one of the operations.
    pub(crate) fn random(chance: &mut Chance, operations: &[Operation], known: &KnownResources) -> Request {
        let operation = chance.of(operations);
        let mut request = Request {
            method: method(operation, chance),
            framing: Framing::Sound,
            target: target(operation, known, chance),
            headers: vec![("Host".to_owned(), b"localhost".to_vec())],
            body: body(operation, chance),
        };
        request.add_credentials(known, chance);
        request.add_headers(chance);
        if chance.once_in(50) {
            request.break_framing(chance);
        } else if !request.body.is_empty() || chance.once_in(4) {
            request.add("Content-Length", request.body.len().to_string());
        }
        request
    }

    /// Returns the path without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }

    fn add(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.headers.push((name.to_owned(), value.into()));
    }

    fn add_credentials(&mut self, known: &KnownResources, chance: &mut Chance) {
        let wrong = chance.once_in(30);
        self.add("X-SERVICE-API-KEY", if wrong { b"other".to_vec() } else { known.key.clone().into_bytes() });
        match chance.below(30) {
            0 => {}
            1 => self.add("X-ACME-SECRET-KEY", known.secret.as_str()),
            2 => self.add("X-SERVICE-API-SECRET", "wrong"),
            _ => self.add("X-SERVICE-API-SECRET", known.secret.as_str()),
        }
        match chance.below(20) {
            0 => {}
            1 => self.add("X-SERVICE-USER-ID", value(chance)),
            _ => self.add("X-SERVICE-USER-ID", "ada"),
        }
        if chance.once_in(40) {
            let tokens = ["", "abc", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyOmFkYSJ9.", "e30.e30.e30"];
            self.add("Authorization", format!("Bearer {}", chance.of(&tokens)));
        }
        if chance.once_in(20) {
            self.add("X-SERVICE-USER-SIGNATURE", value(chance));
        }
    }

    fn add_headers(&mut self, chance: &mut Chance) {
        const MEDIA: [&str; 7] = [
            "application/json; charset=utf-8",
            "application/x-www-form-urlencoded",
            "text/plain",
            "application/json-patch+json",
            "application/json; charset=latin1",
            "",
            ";;;=",
        ];
        let media = if chance.once_in(12) { chance.of(&MEDIA) } else { "application/json" };
        self.add("Content-Type", media);
        self.add(
            "X-SERVICE-DEVICE-ID",
            if chance.once_in(12) { value(chance) } else { b"device-1".to_vec() },
        );
        const NAMES: [&str; 12] = [
            "Prefer",
            "Idempotency-Key",
            "X-Request-Id",
            "Accept",
            "Accept-Encoding",
            "If-None-Match",
            "Origin",
            "Access-Control-Request-Method",
            "traceparent",
            "Content-Encoding",
            "X-SERVICE-API-KEY",
            "Cookie",
        ];
        const VALUES: [&str; 10] = [
            "handling=strict",
            "handling=\"strict\"; x",
            "*/*;q=0",
            "text/html",
            "application/json;q=much",
            "*",
            "https://shop.example",
            "PATCH",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "gzip",
        ];
        for _ in 0..chance.below(3) {
            let name = *chance.of(&NAMES);
            let value =
                if chance.once_in(2) { chance.of(&VALUES).as_bytes().to_vec() } else { value(chance) };
            self.add(name, value);
        }
    }

    fn break_framing(&mut self, chance: &mut Chance) {
        self.framing = Framing::Broken;
        match chance.below(7) {
            0 => self.add("Content-Length", (self.body.len() + 10).to_string()),
            1 => self.add("Content-Length", (self.body.len() / 2).to_string()),
            2 => self.add("Content-Length", "-1"),
            3 => {
                self.add("Content-Length", self.body.len().to_string());
                self.add("Content-Length", (self.body.len() + 1).to_string());
            }
            4 => self.add("Transfer-Encoding", "chunked"),
            5 => self.add("X-Nul", b"a\0b".to_vec()),
            _ => self.add("No Name", "x"),
        }
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        f.write_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(4_000)]))
    }
}

fn method(operation: &Operation, chance: &mut Chance) -> Method {
    const OTHERS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"];
    if chance.once_in(20) { chance.of(&OTHERS).parse().unwrap() } else { operation.method.clone() }
}

fn target(operation: &Operation, known: &KnownResources, chance: &mut Chance) -> String {
    let segments = operation.template.split('/').map(|segment| match segment {
        _ if chance.once_in(60) => escaped(&text(chance)),
        _ if !segment.starts_with('{') => segment.to_owned(),
        _ if chance.once_in(5) => escaped(&text(chance)),
        "{requestId}" => known.request.clone(),
        "{id}" if operation.template.contains("categories") => known.category.clone(),
        "{id}" => chance.of(&known.items).clone(),
        "{file}" => "page.js".to_owned(),
        _ => "ada".to_owned(),
    });
    let mut target = segments.collect::<Vec<_>>().join("/");
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    let mut separator = '?';
    for _ in 0..chance.below(4) {
        let value = match chance.below(3) {
            0 => escaped(&text(chance)),
            1 => (*chance.of(&["true", "1", "20", "unread", "ada", "email"])).to_owned(),
            _ => (*chance.of(&["%FF", "%", "%zz", "+", "a=b", "%00", "abc", "-1", "21"])).to_owned(),
        };
        let name = if operation.queries.is_empty() || chance.once_in(8) {
            "surplus"
        } else {
            chance.of(&operation.queries)
        };
        target.push_str(&format!("{separator}{name}={value}"));
        separator = '&';
    }
    target
}

/// Prepares a text for a path: shortened, because the head of a request has a limit, and percent-encoded.
fn escaped(text: &str) -> String {
    let bytes = text.bytes().take(2_000);
    bytes
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

/// Picks the bytes of a header value. They may have any encoding, but contain no control characters.
fn value(chance: &mut Chance) -> Vec<u8> {
    if chance.once_in(10) {
        return vec![0xff, 0xfe, b'a'];
    }
    text(chance).bytes().filter(|byte| *byte >= 0x20 && *byte != 0x7f).take(5_000).collect()
}

fn body(operation: &Operation, chance: &mut Chance) -> Vec<u8> {
    match &operation.body {
        None if chance.once_in(10) => b"{\"surplus\": true}".to_vec(),
        None => Vec::new(),
        Some(example) => {
            let mut value = example.clone();
            if !chance.once_in(3) {
                mutate(&mut value, chance);
            }
            written(&value, chance)
        }
    }
}
