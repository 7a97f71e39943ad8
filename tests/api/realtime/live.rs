//! A client of `/v3/stream`.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::service::{App, SOON, Service};

/// An open stream.
pub(crate) struct Live {
    response: reqwest::Response,
    text: String,
    /// Id of the last event that had one.
    pub(crate) last_id: String,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Event {
    pub(crate) fn counts(&self) -> (i64, i64) {
        (self.data["unreadCount"].as_i64().unwrap(), self.data["unseenCount"].as_i64().unwrap())
    }
}

/// Headers of a user without a token.
pub(crate) fn user_headers(app: &App, user: &str) -> Vec<(&'static str, String)> {
    vec![("X-SERVICE-API-KEY", app.key.clone()), ("X-SERVICE-USER-ID", user.to_owned())]
}

impl Live {
    /// Opens the stream of a user, and waits for the event `ready`.
    pub(crate) async fn open(service: &Service, app: &App, user: &str) -> Live {
        let (live, ready) = Live::open_at(service.address, &user_headers(app, user), None).await;
        assert_eq!((ready.name.as_str(), &ready.data["resumed"]), ("ready", &Value::Bool(false)));
        live
    }

    /// Opens a stream at a gateway, after the event `last`. Returns it with its first event.
    pub(crate) async fn open_at(
        gateway: SocketAddr,
        headers: &[(&'static str, String)],
        last: Option<&str>,
    ) -> (Live, Event) {
        let opened = Live::try_open(gateway, headers, last).await;
        let mut live = opened.expect("the gateway opens the stream");
        let first = live.next().await;
        (live, first)
    }

    /// Opens a stream at a gateway, after the event `last`. If the gateway refuses it, returns the answer.
    pub(crate) async fn try_open(
        gateway: SocketAddr,
        headers: &[(&'static str, String)],
        last: Option<&str>,
    ) -> Result<Live, reqwest::Response> {
        let mut request = reqwest::Client::new().get(format!("http://{gateway}/v3/stream"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = timeout(SOON, request.send()).await.unwrap().unwrap();
        if response.status() != 200 {
            return Err(response);
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store, no-transform");
        Ok(Live { response, text: String::new(), last_id: String::new() })
    }

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> Event {
        timeout(SOON, self.read()).await.expect("no event arrives").expect("the stream has ended")
    }

    /// Waits for the next event, which must have this name.
    pub(crate) async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await;
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// Waits for the event `bye` and for the end of the stream. Returns the reason.
    pub(crate) async fn ends(mut self) -> String {
        let bye = loop {
            let event = self.next().await;
            if event.name == "bye" {
                break event;
            }
        };
        assert!(timeout(SOON, self.read()).await.unwrap().is_none());
        bye.data["reason"].as_str().unwrap().to_owned()
    }

    /// Returns the events that arrive until none has arrived for `quiet`.
    pub(crate) async fn until_quiet(&mut self, quiet: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        while let Ok(Some(event)) = timeout(quiet, self.read()).await {
            events.push(event);
        }
        events
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let event = self.parse(&block);
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let chunk = self.response.chunk().await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    fn parse(&mut self, block: &str) -> Option<Event> {
        let (mut name, mut data) = (None, None);
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
                Some(("id", value)) => self.last_id = value.to_owned(),
                Some(("retry", value)) => assert_eq!(value, "3000"),
                _ => assert_eq!(line, ":", "an unknown line"),
            }
        }
        Some(Event { name: name?, data: data? })
    }
}
