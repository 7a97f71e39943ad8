//! Concurrent random changes by several users to their inboxes. Every answer matches a model of the inbox. At the end, the list,
//! the counters and a recount of the items agree.

use std::collections::BTreeMap;

use domain::StreamName;
use serde_json::{Value, json};
use suite::RandomNumbers;
use testkit::{WRONG_COUNTERS, eventually};

use crate::client::{Answer, Call};
use crate::service::{App, SOON, Service};

const OPERATIONS: u64 = 75;
const SEED: u64 = 0x7469_6469;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Item {
    seen: bool,
    read: bool,
    state: Option<String>,
}

/// One user, and the expected content of the inbox.
struct User<'a> {
    service: &'a Service,
    app: &'a App,
    name: &'static str,
    random: RandomNumbers,
    /// Expected items by id. Later items have higher ids, so the oldest item comes first.
    items: BTreeMap<i64, Item>,
}

impl User<'_> {
    async fn run(mut self) -> Self {
        for _ in 0..OPERATIONS {
            self.act().await;
        }
        self
    }

    async fn act(&mut self) {
        match self.random.below(14) {
            0..=3 => self.receive().await,
            4..=8 => self.change_one().await,
            9 | 10 => self.set_state().await,
            11 => self.mark_first_seen().await,
            12 => self.read_all().await,
            _ if self.random.below(3) == 0 => self.delete_all().await,
            _ => self.retrieve().await,
        }
    }

    async fn receive(&mut self) {
        let count = 1 + u32::try_from(self.random.below(4)).unwrap();
        self.service.deliver(self.app, self.name, count).await;
        for (id, item) in self.listed().await {
            self.items.entry(id).or_insert(item);
        }
    }

    /// Picks the id of an item in the inbox, or an unknown id.
    fn any_id(&mut self) -> i64 {
        let place = usize::try_from(self.random.below(self.items.len() as u64 + 1)).unwrap();
        self.items.keys().nth(place).copied().unwrap_or(i64::try_from(self.random.below(1 << 20)).unwrap())
    }

    async fn change_one(&mut self) {
        let id = self.any_id();
        let (call, change): (_, fn(&mut Item)) = match self.random.below(5) {
            0 => (format!("POST /v3/notifications/{id}/click"), |item| (item.seen, item.read) = (true, true)),
            1 => (format!("DELETE /v3/notifications/{id}/reads"), |item| item.read = false),
            2 => (format!("PUT /v3/notifications/{id}/views"), |item| item.seen = true),
            3 => (format!("DELETE /v3/notifications/{id}/views"), |item| {
                (item.seen, item.read) = (false, false);
            }),
            _ => (format!("DELETE /v3/notifications/{id}"), |_| {}),
        };
        let answer = self.call(&call, None).await;
        let is_deletion = call.ends_with(&id.to_string());
        match self.items.get_mut(&id) {
            None => answer.fails(404, "not_found"),
            Some(_) if is_deletion => {
                assert!(matches!(answer.status, 200 | 202), "{call}");
                self.items.remove(&id);
            }
            Some(item) => {
                change(item);
                assert!(answer.status == 202 || read(&answer.is(200)) == (id, item.clone()), "{call}");
            }
        }
    }

    async fn set_state(&mut self) {
        let id = self.any_id();
        let state = [None, Some("open"), Some("done")][usize::try_from(self.random.below(3)).unwrap()];
        let call = format!("PUT /v3/notifications/{id}/state");
        let answer = self.call(&call, Some(json!({"state": state}))).await;
        match self.items.get_mut(&id) {
            None => answer.fails(404, "not_found"),
            Some(item) => item.state = state.map(str::to_owned),
        }
    }

    async fn retrieve(&mut self) {
        let id = self.any_id();
        let answer = self.call(&format!("GET /v3/notifications/{id}"), None).await;
        match self.items.get_mut(&id) {
            None => answer.fails(404, "not_found"),
            // Reading the item marks it as seen. If this change is not visible in time, the answer has no `seenAt`.
            Some(item) => item.seen |= answer.is(200)["seenAt"].is_string(),
        }
    }

    async fn mark_first_seen(&mut self) {
        let answer = self.call("POST /v3/notifications/markAllNotificationsAsSeen", None).await;
        let unseen = self.items.values_mut().rev().filter(|item| !item.seen).take(15);
        let count = unseen.map(|item| item.seen = true).count();
        assert!(answer.status != 200 || answer.body["updated"] == count, "{:?}", answer.body);
    }

    async fn read_all(&mut self) {
        let answer = self.call("PUT /v3/notifications/markAllNotificationsAsRead", None).await;
        let unread = self.items.values_mut().filter(|item| !item.read);
        let count = unread.map(|item| (item.seen, item.read) = (true, true)).count();
        assert!(answer.status != 200 || answer.body["updated"] == count, "{:?}", answer.body);
    }

    async fn delete_all(&mut self) {
        let answer = self.call("POST /v3/notifications/markAllNotificationsAsDeleted", None).await;
        assert!(answer.status != 200 || answer.body["updated"] == self.items.len(), "{:?}", answer.body);
        self.items.clear();
    }

    /// Makes a call, and returns when later calls see its effect.
    async fn call(&self, call: &str, body: Option<Value>) -> Answer {
        let call = self.service.of(self.app, self.name, call);
        let call = match body {
            Some(body) => call.json(&body),
            None => call,
        };
        self.service.changed(call).await
    }

    /// Reads the whole inbox, page by page.
    async fn listed(&self) -> BTreeMap<i64, Item> {
        let mut items = BTreeMap::new();
        let mut query = "limit=20".to_owned();
        loop {
            let page = self.service.list(self.app, self.name, &query).await;
            items.extend(page["data"].as_array().unwrap().iter().map(read));
            match page["pagination"]["nextCursor"].as_str() {
                Some(cursor) => query = format!("limit=20&cursor={cursor}"),
                None => return items,
            }
        }
    }

    async fn check(&self) {
        assert_eq!(self.listed().await, self.items, "{}", self.name);
        let list = self.service.list(self.app, self.name, "").await;
        let counts = [&list["pagination"]["totalCount"], &list["unreadCount"], &list["unseenCount"]];
        let unread = self.items.values().filter(|item| !item.read).count();
        let unseen = self.items.values().filter(|item| !item.seen).count();
        assert_eq!(counts, [&json!(self.items.len()), &json!(unread), &json!(unseen)], "{}", self.name);
    }
}

fn read(item: &Value) -> (i64, Item) {
    let state = item["state"].as_str().map(str::to_owned);
    let (seen, read) = (item["seenAt"].is_string(), item["clickedAt"].is_string());
    (item["id"].as_i64().unwrap(), Item { seen, read, state })
}

impl Service {
    /// Makes a change to an inbox, and returns when lists show it.
    pub(crate) async fn change(&self, call: Call) {
        let answer = self.changed(call).await;
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
    }

    /// Repeats a change until the answer is a 200, which means that lists show the change, and returns the body.
    pub(crate) async fn shown(&self, change: impl Fn() -> Call) -> Value {
        eventually(SOON, "the change is answered 200", async || {
            let answer = change().send().await;
            (answer.status != 202).then(|| answer.is(200))
        })
        .await
    }

    /// Makes a call. If it is a change that lists do not show yet, waits until they do.
    pub(crate) async fn changed(&self, call: Call) -> Answer {
        let answer = call.send().await;
        if answer.status == 202 {
            self.caught_up().await;
        }
        answer
    }

    /// Waits until the projection has reached the end of the log.
    pub(crate) async fn caught_up(&self) {
        for number in 0..self.context.partitions {
            let stream = StreamName::Inbox(number);
            let last = self.context.log.state(stream).await.unwrap().last_seq;
            eventually(SOON, "the projection has caught up", async || {
                let positions = self.context.store.inbox().positions().await.unwrap();
                let position = positions.into_iter().find(|(name, _)| *name == stream.to_string());
                (position.map_or(0, |(_, seq)| seq) >= last).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn lists_and_counters_agree_after_concurrent_random_changes() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let user = |name, number| {
        let random = RandomNumbers(SEED + number);
        User { service: &service, app: &shop, name, random, items: BTreeMap::new() }
    };
    let (ada, bob, eve, joe) =
        tokio::join!(user("ada", 1).run(), user("bob", 2).run(), user("eve", 3).run(), user("joe", 4).run());
    service.caught_up().await;
    for user in [ada, bob, eve, joe] {
        user.check().await;
    }
    let wrong: i64 = sqlx::query_scalar(WRONG_COUNTERS).fetch_one(&service.pool).await.unwrap();
    assert_eq!(wrong, 0);
}
