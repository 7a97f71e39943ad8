//! Users who list and change their inboxes. On each visit, a user lists the inbox, makes several changes at once while a second
//! device lists it too, and lists it again. Each call goes to a random gateway.

use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use service_kit::clock;
use suite::Api;

use crate::journal::{Change, Line, Page, ShownItem};
use crate::workload::{Workload, identifier};

/// Maximum number of concurrent changes.
const AT_ONCE: usize = 3;
/// Time for which users snooze an item.
const SNOOZE: Duration = Duration::from_secs(10);
/// Share of visits that change the whole inbox, in percent.
const WHOLE: usize = 10;

impl Workload {
    /// Runs one user, who waits for every answer before the next step.
    pub(super) async fn read(self: Arc<Self>, user: usize) {
        // Users start at different times.
        let late = self.dice.below(100, ("begins", user));
        let mut pace = self.pace_from(self.size.rounds as usize, late);
        let mut step = 0;
        for _ in 0..self.size.rounds {
            pace.step().await;
            step += 2;
            let Some(page) = self.list(user, step).await else { continue };
            let changes = self.choose(user, step, &page).into_iter().enumerate();
            let making = changes.map(|(number, change)| self.make(user, (step, number), change));
            tokio::join!(join_all(making), self.list_during_changes(user, step));
            self.list(user, step + 1).await;
        }
    }

    /// Chooses one change to the whole inbox, or several changes to one item each.
    fn choose(&self, user: usize, step: u32, page: &Page) -> Vec<Change> {
        let about = (user, step);
        if self.dice.percent(WHOLE, ("whole", about)) {
            let all_deleted = self.dice.percent(20, ("which whole", about));
            return vec![if all_deleted { Change::AllDeleted } else { Change::AllRead }];
        }
        let wanted = 1 + self.dice.below(AT_ONCE, ("changes", about));
        let first = self.dice.below(page.items.len().max(1), ("item", about));
        // Choose adjacent items of the page, so that each change is to a different item.
        let items = page.items.iter().cycle().skip(first).take(wanted.min(page.items.len()));
        items.enumerate().map(|(number, item)| self.change(item.id, (user, step, number))).collect()
    }

    fn change(&self, item: i64, about: (usize, u32, usize)) -> Change {
        match self.dice.below(8, ("which", about)) {
            0 => Change::Seen(item),
            1 => Change::Unseen(item),
            2 => Change::Read(item),
            3 => Change::Unread(item),
            4 => Change::Deleted(item),
            5 => Change::Snoozed(item, (clock::now() + SNOOZE).millis()),
            6 => Change::Archived(item),
            _ => Change::StateSet(item, format!("state-{}", about.1)),
        }
    }

    async fn make(&self, user: usize, about: (u32, usize), change: Change) {
        let gateway = self.dice.below(2, ("change", user, about));
        let answer = Api::try_once(self.call(user, gateway, &change)).await;
        let status = answer.map(|(status, _)| status);
        self.journal.write(Line::Changed { user, change, status, at: clock::now().millis() }).await;
    }

    /// Lists the inbox while its changes are in progress. The list may or may not show each of them, so the journal records the
    /// call only if it fails.
    async fn list_during_changes(&self, user: usize, step: u32) {
        let answer = self.ask(user, self.dice.below(2, ("glance", user, step))).await;
        let (status, at) = (answer.map(|(status, _)| status), clock::now().millis());
        if status != Some(200) {
            self.journal.write(Line::NotListed { user, status, at }).await;
        }
    }

    async fn ask(&self, user: usize, gateway: usize) -> Option<(u16, Value)> {
        let call = self.api(self.people.app_of(user), gateway).call(Method::GET, "/v3/notifications");
        Api::try_once(call.query(&[("limit", "20")]).header("X-SERVICE-USER-ID", identifier(user))).await
    }

    fn call(&self, user: usize, gateway: usize, change: &Change) -> RequestBuilder {
        let item = |id: &i64, rest: &str| format!("/v3/notifications/{id}{rest}");
        let (method, path) = match change {
            Change::Seen(id) => (Method::PUT, item(id, "/views")),
            Change::Unseen(id) => (Method::DELETE, item(id, "/views")),
            Change::Read(id) => (Method::PUT, item(id, "/reads")),
            Change::Unread(id) => (Method::DELETE, item(id, "/reads")),
            Change::Deleted(id) => (Method::DELETE, item(id, "")),
            Change::StateSet(id, _) => (Method::PUT, item(id, "/state")),
            Change::Archived(id) => (Method::PUT, item(id, "/archive")),
            Change::Snoozed(id, _) => (Method::PUT, item(id, "/snooze")),
            Change::AllRead => (Method::POST, "/v3/notifications/markAllNotificationsAsRead".to_owned()),
            Change::AllDeleted => {
                (Method::POST, "/v3/notifications/markAllNotificationsAsDeleted".to_owned())
            }
        };
        let call = self.api(self.people.app_of(user), gateway).call(method, &path);
        let call = call.header("X-SERVICE-USER-ID", identifier(user));
        match change {
            Change::StateSet(_, state) => call.json(&json!({"state": state})),
            Change::Snoozed(_, until) => call.json(&json!({"until": Timestamp::from_millis(*until)})),
            _ => call,
        }
    }

    /// Lists the first page, and records it in the journal. Returns None if no answer came.
    async fn list(&self, user: usize, step: u32) -> Option<Page> {
        let gateway = self.dice.below(2, ("list", user, step));
        let answer = self.ask(user, gateway).await;
        let at = clock::now().millis();
        let Some((200, answer)) = answer else {
            let status = answer.map(|(status, _)| status);
            self.journal.write(Line::NotListed { user, status, at }).await;
            return None;
        };
        let page = read_page(&answer);
        self.journal.write(Line::Listed { user, page: page.clone(), at }).await;
        Some(page)
    }
}

/// Parses an answer to `GET /v3/notifications`.
pub(crate) fn read_page(answer: &Value) -> Page {
    let number = |value: &Value| value.as_i64().unwrap();
    let shown = |item: &Value| ShownItem {
        id: number(&item["id"]),
        title: item["title"].as_str().unwrap().to_owned(),
        created_at: Timestamp::parse(item["createdAt"].as_str().unwrap()).unwrap().millis(),
        seen: !item["seenAt"].is_null(),
        read: !item["clickedAt"].is_null(),
        state: item["state"].as_str().map(str::to_owned),
    };
    let pagination = &answer["pagination"];
    Page {
        items: answer["data"].as_array().unwrap().iter().map(shown).collect(),
        more: !pagination["nextCursor"].is_null(),
        total: number(&pagination["totalCount"]),
        unread: number(&answer["unreadCount"]),
        unseen: number(&answer["unseenCount"]),
    }
}
