//! Random changes by several devices of several users of two apps, over both protocols. At each quiet moment, the state that a client
//! has built from its updates equals the list.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use service_kit::clock;
use suite::RandomNumbers;
use tokio::time::{Instant, timeout};

use super::live::{Event, Live, user_headers};
use super::socket_device::SocketDevice;
use crate::service::{App, SOON, Service};

const ROUNDS: u64 = 12;
const CHANGES: u64 = 15;
const USERS: [&str; 3] = ["ada", "bob", "cyd"];
const SEED: u64 = 0x7265_616c;
const DEVICES: usize = 2;
const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// A device with an open stream, and its copy of the inbox.
struct Device {
    app: App,
    user: &'static str,
    live: Option<Live>,
    items: BTreeMap<i64, Value>,
    counts: (i64, i64),
    /// Id of the last event.
    last_id: String,
    resets: usize,
}

/// Returns the whole inbox of a user, and its counters.
pub(super) async fn listed(service: &Service, app: &App, user: &str) -> (BTreeMap<i64, Value>, (i64, i64)) {
    let (mut items, mut query) = (BTreeMap::new(), "limit=20".to_owned());
    loop {
        let page = service.list(app, user, &query).await;
        for item in page["data"].as_array().unwrap() {
            items.insert(item["id"].as_i64().unwrap(), item.clone());
        }
        let Some(cursor) = page["pagination"]["nextCursor"].as_str() else {
            let counts = [&page["unreadCount"], &page["unseenCount"]].map(|count| count.as_i64().unwrap());
            return (items, (counts[0], counts[1]));
        };
        query = format!("limit=20&cursor={cursor}");
    }
}

impl Device {
    fn new(app: &App, user: &'static str) -> Device {
        let (items, last_id) = (BTreeMap::new(), String::new());
        Device { app: app.clone(), user, live: None, items, counts: (0, 0), last_id, resets: 0 }
    }

    async fn connect(&mut self, service: &Service, gateway: SocketAddr) {
        let app = &self.app.clone();
        let last = Some(self.last_id.as_str()).filter(|last| !last.is_empty());
        let (live, ready) = Live::open_at(gateway, &user_headers(app, self.user), last).await;
        self.last_id.clone_from(&live.last_id);
        self.live = Some(live);
        self.counts = ready.counts();
        if ready.data["resumed"] == false {
            (self.items, self.counts) = listed(service, app, self.user).await;
        }
    }

    async fn apply(&mut self, service: &Service, app: &App, event: Event) {
        if event.data.get("unreadCount").is_some() {
            self.counts = event.counts();
        }
        match event.name.as_str() {
            "notification.created" | "notification.updated" => {
                let item = event.data["notification"].clone();
                self.items.insert(item["id"].as_i64().unwrap(), item);
            }
            "notification.deleted" => drop(self.items.remove(&event.data["id"].as_i64().unwrap())),
            "inbox.updated" => {
                let up_to = event.data["upTo"].as_i64().unwrap();
                match event.data["change"].as_str().unwrap() {
                    "allDeleted" => self.items.retain(|id, _| *id > up_to),
                    change => {
                        let member = if change == "allRead" { "clickedAt" } else { "seenAt" };
                        for (_, item) in self.items.iter_mut().filter(|(id, _)| **id <= up_to) {
                            if item[member].is_null() {
                                item[member] = json!("now");
                            }
                            if item["seenAt"].is_null() {
                                item["seenAt"] = json!("now");
                            }
                        }
                    }
                }
            }
            "reset" => {
                self.resets += 1;
                (self.items, self.counts) = listed(service, app, self.user).await;
            }
            other => panic!("unexpected event {other}"),
        }
    }

    /// Reads updates until the copy equals the list. Panics if it does not within a time limit.
    async fn settles(&mut self, service: &Service) {
        let app = &self.app.clone();
        let (items, counts) = listed(service, app, self.user).await;
        let until = Instant::now() + SOON;
        while (plain(&self.items), self.counts) != (plain(&items), counts) {
            assert!(Instant::now() < until, "{}: {:#?}\nbut listed: {items:#?}", self.user, self.items);
            let event = timeout(SOON, self.live.as_mut().unwrap().next()).await;
            let event = event.unwrap_or_else(|_| panic!("{}: {:?}, listed {items:?}", self.user, self.items));
            self.last_id.clone_from(&self.live.as_ref().unwrap().last_id);
            self.apply(service, app, event).await;
        }
    }
}

/// Returns what a client shows of each item. An update of all items does not say at which time each was seen.
fn plain(items: &BTreeMap<i64, Value>) -> BTreeMap<i64, (Value, bool, bool, Value)> {
    let show = |item: &Value| {
        let is_set = |member: &str| !item[member].is_null();
        (item["title"].clone(), is_set("seenAt"), is_set("clickedAt"), item["state"].clone())
    };
    items.iter().map(|(id, item)| (*id, show(item))).collect()
}

async fn change(service: &Service, app: &App, user: &str, random: &mut RandomNumbers) {
    let (items, _) = listed(service, app, user).await;
    let ids: Vec<i64> = items.into_keys().collect();
    let any = |random: &mut RandomNumbers| ids[usize::try_from(random.below(ids.len() as u64)).unwrap()];
    let hidden = ["archived", "snoozed"][usize::try_from(random.below(2)).unwrap()];
    let call = match random.below(11) {
        0..4 => return service.deliver(app, user, 1).await,
        _ if ids.is_empty() => return,
        4 => format!("POST /v3/notifications/{}/click", any(random)),
        5 => format!("DELETE /v3/notifications/{}/views", any(random)),
        6 => format!("DELETE /v3/notifications/{}", any(random)),
        7 => "POST /v3/notifications/markAllNotificationsAsRead".to_owned(),
        8 => {
            // Return hidden items, which keeps the lists from running empty.
            let list = service.list(app, user, &format!("filter={hidden}&limit=3")).await;
            let some: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
            let change = if hidden == "archived" { "unarchived" } else { "unsnoozed" };
            let body = json!({"ids": some, "change": change});
            let bulk = service.of(app, user, "POST /v3/notifications/bulk").json(&body);
            return drop(service.changed(bulk).await);
        }
        9 if random.below(4) == 0 => "POST /v3/notifications/markAllNotificationsAsDeleted".to_owned(),
        _ => {
            let names = ["seen", "unseen", "read", "unread", "deleted", "archived", "snoozed"];
            let some = [any(random), any(random), any(random)];
            let body = json!({"ids": some, "change": names[usize::try_from(random.below(7)).unwrap()],
                "until": clock::now() + HOUR});
            let bulk = service.of(app, user, "POST /v3/notifications/bulk").json(&body);
            return drop(service.changed(bulk).await);
        }
    };
    service.changed(service.of(app, user, &call)).await;
}

#[tokio::test]
async fn what_clients_have_built_from_updates_equals_the_list_at_each_quiet_moment() {
    let service = Service::start().await;
    let (other, _stops) = service.another_gateway().await;
    let gateways = [service.address, other];
    let apps = [service.app("shop").await, service.app("bank").await];
    let mut random = RandomNumbers(SEED);
    let (mut devices, mut sockets) = (Vec::new(), Vec::new());
    for app in &apps {
        for user in USERS {
            service.deliver(app, user, 1).await;
            for number in 0..DEVICES {
                let mut device = Device::new(app, user);
                device.connect(&service, gateways[number % 2]).await;
                devices.push(device);
            }
            let mut socket = SocketDevice::new(app, user);
            socket.connect(&service, service.address).await;
            sockets.push(socket);
        }
    }
    for _ in 0..ROUNDS {
        let mut any = |count: usize| usize::try_from(random.below(count as u64)).unwrap();
        let (cut, cut_socket) = (any(devices.len()), any(sockets.len()));
        let (gateway, gateway_of_socket) = (gateways[any(2)], gateways[any(2)]);
        devices[cut].live = None;
        sockets[cut_socket].disconnect();
        for _ in 0..CHANGES {
            let (app, user) =
                (&apps[usize::from(random.below(3) == 0)], USERS[usize::try_from(random.below(3)).unwrap()]);
            change(&service, app, user, &mut random).await;
        }
        devices[cut].connect(&service, gateway).await;
        sockets[cut_socket].connect(&service, gateway_of_socket).await;
        for device in &mut devices {
            device.settles(&service).await;
        }
        for socket in &mut sockets {
            socket.settles(&service).await;
        }
    }
    let resets: usize = devices.iter().map(|device| device.resets).sum();
    let restarts: usize = sockets.iter().map(|socket| socket.restarts).sum();
    assert_eq!((resets, restarts), (0, 0), "both gateways follow all partitions, so every device resumes");
}
