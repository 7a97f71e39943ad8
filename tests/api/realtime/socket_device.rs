//! A device of the model test that receives its updates over Socket.IO, as clients that were published for this interface.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::model::listed;
use super::socket_io::Client;
use crate::service::{App, SOON, Service};

/// A device, and the ids of its notifications with their states. The protocol does not report every change of the other properties.
pub(super) struct SocketDevice {
    pub(super) app: App,
    pub(super) user: &'static str,
    client: Option<Client>,
    pid: String,
    offset: String,
    states: BTreeMap<i64, Value>,
    /// Number of times that the gateway could not continue an earlier connection.
    pub(super) restarts: usize,
}

impl SocketDevice {
    pub(super) fn new(app: &App, user: &'static str) -> SocketDevice {
        let (pid, offset) = (String::new(), String::new());
        SocketDevice {
            app: app.clone(),
            user,
            client: None,
            pid,
            offset,
            states: BTreeMap::new(),
            restarts: 0,
        }
    }

    pub(super) fn disconnect(&mut self) {
        self.client = None;
    }

    pub(super) async fn connect(&mut self, service: &Service, gateway: SocketAddr) {
        let mut client = Client::open_at(gateway, &self.app, self.user).await;
        client.send(&format!("40{}", json!({"pid": self.pid, "offset": self.offset}))).await;
        let answer = client.frame().await.unwrap();
        let answer: Value = serde_json::from_str(answer.strip_prefix("40").unwrap()).unwrap();
        if answer["pid"] != self.pid {
            self.restarts += usize::from(!self.pid.is_empty());
            self.pid = answer["pid"].as_str().unwrap().to_owned();
            self.states = states(service, &self.app, self.user).await;
        }
        // The first event has a position, from which the device resumes if nothing else arrives.
        let first = client.frame().await.unwrap();
        self.client = Some(client);
        self.apply(&first).await;
    }

    /// Reads updates until the copy equals the list. Panics if it does not within a time limit.
    pub(super) async fn settles(&mut self, service: &Service) {
        let listed = states(service, &self.app, self.user).await;
        let until = Instant::now() + SOON;
        while self.states != listed {
            assert!(Instant::now() < until, "{}: {:?}, but listed: {listed:?}", self.user, self.states);
            let frame = timeout(SOON, self.client.as_mut().unwrap().frame()).await;
            let frame =
                frame.unwrap_or_else(|_| panic!("{}: {:?}, listed {listed:?}", self.user, self.states));
            self.apply(&frame.expect("the connection is open")).await;
        }
    }

    async fn apply(&mut self, frame: &str) {
        if frame == "2" {
            return self.client.as_mut().unwrap().send("3").await;
        }
        let event: Vec<Value> = serde_json::from_str(frame.strip_prefix("42").unwrap()).unwrap();
        if let Some(offset) = event.last().and_then(Value::as_str) {
            offset.clone_into(&mut self.offset);
        }
        let id = |value: &Value| value["id"].as_i64().unwrap();
        match event[0].as_str().unwrap() {
            "NEW_NOTIFICATION" => {
                let item = &event[1]["notification"];
                self.states.insert(id(item), item["state"].clone());
            }
            "NOTIFICATION_INTERACTED" => drop(self.states.insert(id(&event[1]), event[1]["state"].clone())),
            "NOTIFICATION_DELETED" => drop(self.states.remove(&id(&event[1]))),
            "ALL_NOTIFICATION_DELETED" => self.states.clear(),
            "NOTIFICATION_SEEN" | "NOTIFICATION_READ" | "ALL_NOTIFICATION_READ" => {}
            other => panic!("unexpected event {other}"),
        }
    }
}

async fn states(service: &Service, app: &App, user: &str) -> BTreeMap<i64, Value> {
    let (items, _) = listed(service, app, user).await;
    items.into_iter().map(|(id, item)| (id, item["state"].clone())).collect()
}
