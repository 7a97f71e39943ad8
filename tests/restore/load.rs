//! Load of the app: users, sends of every kind, erasures and cancellations.

use std::time::Duration;

use domain::Timestamp;
use futures_util::StreamExt as _;
use futures_util::stream;
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::clock;
use suite::{Api, numbered_send};
use testkit::eventually;

use crate::providers::{DEAD_DOMAIN, FULL_DOMAIN, SILENT, SLOW_DOMAIN};
use crate::system::System;

const PEOPLE: usize = 24;
const AT_ONCE: usize = 8;
const CHANNELS: [&str; 5] = ["inApp", "email", "sms", "mobilePush", "webPush"];
/// Number of recipients of a large send.
const LARGE: usize = 700;

/// Number of subscribers of the topic `fans`, which is enough for two chunks.
const FANS: usize = 600;
/// Number of subscribers who do not leave it.
const LOYAL: usize = 550;

const SOON: Duration = Duration::from_secs(60);

/// A send that was confirmed.
pub(crate) struct ConfirmedSend {
    pub(crate) number: usize,
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) body: Value,
    /// Identifiers of the recipients.
    pub(crate) recipients: Vec<String>,
}

pub(crate) struct Load {
    pub(crate) sends: Vec<ConfirmedSend>,
    /// Identifiers of users that were erased.
    pub(crate) erased: Vec<String>,
    /// Scheduled requests that were cancelled before they were due.
    pub(crate) cancelled: Vec<String>,
    /// Number of subscribers of the topic `fans`.
    fans: usize,
    next: usize,
}

/// Profile of a user that is created before the dump. Some have addresses that make providers fail.
fn person(number: usize) -> Value {
    let domain = match number {
        1 => SLOW_DOMAIN,
        2 => FULL_DOMAIN,
        3 => DEAD_DOMAIN,
        _ => "example.com",
    };
    let phone = if number == 7 { SILENT.to_owned() } else { format!("+1415{number:07}") };
    json!({
        "email": format!("person-{number}@{domain}"), "phone": phone,
        "fcm": {"tokens": [format!("fcm-token-{number:020}")]},
    })
}

fn identifier(number: usize) -> String {
    format!("person-{number}")
}

/// Returns true if the send with this number goes to the topic `fans`.
fn is_to_fans(number: usize) -> bool {
    number % 60 == 20
}

fn fan(number: usize) -> String {
    format!("fan-{number}")
}

impl Load {
    /// Creates the users and a topic.
    pub(crate) async fn begin(system: &System) -> Load {
        let users: Vec<_> = (0..PEOPLE)
            .map(|number| json!({"identifier": identifier(number), "profile": person(number)}))
            .collect();
        system.api.create_users(&users).await;
        for number in 0..PEOPLE {
            let browser = system.providers.push_service.subscribe(None).unwrap();
            system.api.subscribe(&identifier(number), &browser.subscription()).await;
        }
        let fans: Vec<String> = (0..FANS).map(fan).collect();
        let users: Vec<_> = fans.iter().map(|fan| json!({"identifier": fan})).collect();
        system.api.create_users(&users).await;
        let call = system.api.call(Method::POST, "/v3/topics/fans/subscriptions");
        Api::answer(call.json(&json!({"add": fans})), 200).await;
        Load { sends: Vec::new(), erased: Vec::new(), cancelled: Vec::new(), fans: FANS, next: 0 }
    }

    /// Makes `count` sends, several concurrently, and returns when each is confirmed.
    pub(crate) async fn send(&mut self, system: &System, count: usize) {
        let numbers = self.next..self.next + count;
        self.next += count;
        let fans = self.fans;
        let sending = stream::iter(numbers).map(|number| Load::one(system, number, fans));
        self.sends.extend(sending.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await);
    }

    async fn one(system: &System, number: usize, fans: usize) -> ConfirmedSend {
        let (recipients, mut body) = compose(number, fans);
        if number % 9 == 4 {
            body["sendAt"] = json!(later(Duration::from_secs(2 + (number % 5) as u64)));
        }
        Load::deliver(system, number, recipients, body).await
    }

    async fn deliver(system: &System, number: usize, recipients: Vec<String>, body: Value) -> ConfirmedSend {
        let key = format!("key-{number}");
        let id = system.api.send(&key, &body).await;
        ConfirmedSend { number, id, key, body, recipients }
    }

    /// Waits until the sends to the topic are planned for all their recipients. A send that is planned only after a restore goes to the
    /// subscribers that the dump contains.
    pub(crate) async fn await_sends_to_fans(&self, system: &System) {
        let to_fans = self.sends.iter().filter(|sent| is_to_fans(sent.number));
        for sent in to_fans.filter(|sent| !self.cancelled.contains(&sent.id)) {
            eventually(SOON, "a send to the topic is completed", async || {
                (system.api.request(&sent.id).await["status"] == "completed").then_some(())
            })
            .await;
        }
    }

    /// Makes the last fans leave their topic. This happens after the dump, which still contains their subscriptions.
    pub(crate) async fn lose_fans(&mut self, system: &System) {
        self.await_sends_to_fans(system).await;
        let leaving: Vec<String> = (LOYAL..FANS).map(fan).collect();
        let call = system.api.call(Method::POST, "/v3/topics/fans/subscriptions");
        Api::answer(call.json(&json!({"remove": leaving})), 200).await;
        self.fans = LOYAL;
    }

    /// Erases users and cancels a scheduled send. This happens after the dump.
    pub(crate) async fn erase_and_cancel(&mut self, system: &System) {
        // The user `fleeting` is created after the dump, and no send names this user.
        system.api.create_users(&[json!({"identifier": "fleeting", "profile": {}})]).await;
        for identifier in [identifier(10), "new-50".to_owned(), "fleeting".to_owned()] {
            system.api.erase(&identifier).await;
            self.erased.push(identifier);
        }
        let (recipients, mut body) = compose(self.next, self.fans);
        body["sendAt"] = json!(later(Duration::from_secs(40)));
        let sent = Load::deliver(system, self.next, recipients, body).await;
        self.next += 1;
        system.api.cancel(&sent.id).await;
        self.cancelled.push(sent.id.clone());
        self.sends.push(sent);
    }
}

fn compose(number: usize, fans: usize) -> (Vec<String>, Value) {
    if number % 60 == 37 {
        // A large send has two chunks.
        let recipients: Vec<_> = (0..LARGE).map(|person| format!("crowd-{number}-{person}")).collect();
        let named: Vec<_> =
            recipients.iter().map(|name| json!({"identifier": name, "profile": {"first": name}})).collect();
        let mut body = numbered_send::body(number, &[], &["inApp"], "bulk");
        body["sendTo"] = json!({"recipients": named});
        return (recipients, body);
    }
    if is_to_fans(number) {
        let mut body = numbered_send::body(number, &[], &["inApp"], "transactional");
        body["sendTo"] = json!({"topics": ["fans"]});
        return ((0..fans).map(fan).collect(), body);
    }
    let mut recipients: Vec<String> =
        (0..3).map(|place| identifier((number * 7 + place * 5) % PEOPLE)).collect();
    let mut named: Vec<Value> = recipients.iter().map(|name| json!(name)).collect();
    if number.is_multiple_of(2) {
        // Add a user that does not exist yet. Half of these users have addresses.
        let name = format!("new-{number}");
        let profile = json!({"email": format!("{name}@example.com"), "phone": format!("+1416{number:07}")});
        named.push(json!({"identifier": name, "profile": if number.is_multiple_of(4) { profile } else { json!({}) }}));
        recipients.push(name);
    }
    let mut body = numbered_send::body(number, &[], &CHANNELS, "transactional");
    body["sendTo"] = json!({"recipients": named});
    if number.is_multiple_of(5) {
        body["category"] = json!(format!("category-{}", number / 40));
    }
    (recipients, body)
}

fn later(after: Duration) -> Timestamp {
    clock::now() + after
}
