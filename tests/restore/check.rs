//! Checks of a restored installation, made when no work remains.

use std::collections::{HashMap, HashSet};

use domain::AppId;
use serde_json::{Value, json};
use suite::numbered_send;
use uuid::Uuid;

use crate::load::Load;
use crate::outcomes::Outcomes;
use crate::system::System;

/// State of the database before it was lost.
pub(crate) struct LostState {
    /// Identifiers of users with a send, by number.
    users: HashMap<i64, String>,
}

impl LostState {
    pub(crate) async fn of(system: &System) -> LostState {
        let users: Vec<(i64, String)> = sqlx::query_as(
            "SELECT number, identifier FROM app_user u
             WHERE EXISTS (SELECT FROM planned_recipient p WHERE (p.app_id, p.user_number) = (u.app_id, u.number))",
        )
        .fetch_all(&system.database)
        .await
        .unwrap();
        LostState { users: users.into_iter().collect() }
    }
}

/// Input of the checks.
pub(crate) struct Aftermath<'a> {
    pub(crate) system: &'a System,
    pub(crate) load: &'a Load,
    pub(crate) before: &'a LostState,
    pub(crate) outcomes: &'a Outcomes,
}

/// A delivery in the ledger that has a target.
#[derive(sqlx::FromRow)]
struct Delivery {
    id: Uuid,
    send_id: Uuid,
    channel: String,
    target: String,
    status: String,
}

impl Aftermath<'_> {
    pub(crate) async fn keys_belong_to_the_same_sends(&self) {
        for sent in &self.load.sends {
            assert_eq!(self.system.api.send(&sent.key, &sent.body).await, sent.id, "{}", sent.key);
        }
    }

    /// Every recipient has a final status on every channel, and the request reports it.
    pub(crate) async fn every_send_has_ended(&self) {
        let known: Vec<Uuid> =
            sqlx::query_scalar("SELECT send_id FROM request").fetch_all(&self.system.database).await.unwrap();
        let known: HashSet<String> = known.iter().map(Uuid::to_string).collect();
        let lost = self.load.sends.iter().filter(|sent| !known.contains(&sent.id));
        let lost: Vec<_> = lost.map(|sent| (sent.number, &sent.id, &sent.body["sendAt"])).collect();
        assert!(lost.is_empty(), "lost sends: {lost:?}");
        for sent in &self.load.sends {
            let request = self.system.api.request(&sent.id).await;
            let expected = if self.load.cancelled.contains(&sent.id) { "cancelled" } else { "completed" };
            assert_eq!(request["status"], expected, "{request}");
            assert_eq!(request["recipients"], json!(sent.recipients.len()), "{request}");
            let in_app = &request["counts"]["inApp"];
            let in_app: u64 =
                in_app.as_object().unwrap().values().map(|count: &Value| count.as_u64().unwrap()).sum();
            assert_eq!(in_app, sent.recipients.len() as u64, "{request}");
        }
    }

    /// Users in published plans keep their numbers, and a new user gets a number above all of them.
    pub(crate) async fn numbers_belong_to_the_same_users(&self) {
        let now: Vec<(i64, String)> = sqlx::query_as("SELECT number, identifier FROM app_user")
            .fetch_all(&self.system.database)
            .await
            .unwrap();
        let now: HashMap<i64, String> = now.into_iter().collect();
        // Other users may get new numbers: a chunk that was frozen but not published before the loss is planned again.
        let known = || self.before.users.iter().filter(|(number, _)| self.outcomes.planned.contains(number));
        for (number, identifier) in known() {
            assert_eq!(now.get(number), Some(identifier), "{number}");
        }
        self.system.api.create_users(&[json!({"identifier": "late", "profile": {}})]).await;
        let late: i64 = sqlx::query_scalar("SELECT number FROM app_user WHERE identifier = 'late'")
            .fetch_one(&self.system.database)
            .await
            .unwrap();
        assert!(known().all(|(number, _)| *number < late), "the number {late} belonged to another user");
    }

    pub(crate) async fn inboxes_hold_each_notice_once(&self) {
        let items: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT u.identifier, content ->> 'title', count(*) FROM inbox_item i
             JOIN app_user u ON (u.app_id, u.number) = (i.app_id, i.user_number) GROUP BY 1, 2",
        )
        .fetch_all(&self.system.database)
        .await
        .unwrap();
        let items: HashMap<(String, String), i64> =
            items.into_iter().map(|(user, title, count)| ((user, title), count)).collect();
        let mut expected = HashSet::new();
        for sent in self.load.sends.iter().filter(|sent| !self.load.cancelled.contains(&sent.id)) {
            let recipients = sent.recipients.iter().filter(|user| !self.load.erased.contains(user));
            expected.extend(recipients.map(|user| (user.clone(), numbered_send::title(sent.number))));
        }
        for key in &expected {
            assert_eq!(items.get(key), Some(&1), "{key:?}");
        }
        let of_others =
            items.keys().filter(|key| !expected.contains(*key) && !self.load.erased.contains(&key.0));
        assert_eq!(of_others.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
        let counters: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM inbox_counter c WHERE total <> (
               SELECT count(*) FROM inbox_item i
               WHERE (i.app_id, i.user_number) = (c.app_id, c.user_number) AND i.deleted_at IS NULL)",
        )
        .fetch_one(&self.system.database)
        .await
        .unwrap();
        assert_eq!(counters, 0);
    }

    /// No provider accepted a delivery twice. A delivery with a final status in the log keeps it.
    pub(crate) async fn nothing_was_sent_again(&self) {
        let taken = self.taken();
        let ended = self.outcomes.ended();
        let titles = self.titles();
        for delivery in self.deliveries().await {
            let calls = taken
                .get(&(delivery.target.clone(), titles[&delivery.send_id].clone()))
                .copied()
                .unwrap_or(0);
            let Delivery { id, channel, status, .. } = &delivery;
            let had_ended = ended.contains(id);
            assert!(
                calls <= 1,
                "{id} over {channel}, {status}: {calls} calls; final status in the log: {had_ended}"
            );
            if status == "sent" {
                assert_eq!(calls, 1, "{id} over {channel} is sent, but no provider accepted it");
            }
            let reported = self.outcomes.reported.get(id).filter(|reported| reported.is_terminal());
            assert!(
                reported.is_none_or(|reported| reported.as_str() == status),
                "{id} was {reported:?} in the log, but is {status}"
            );
        }
    }

    pub(crate) async fn erasures_and_cancellations_persist(&self) {
        for identifier in &self.load.erased {
            let user = self.system.api.find(&format!("/v3/users/{identifier}")).await;
            assert_eq!(user, None, "{identifier}");
        }
        let nameless: i64 =
            sqlx::query_scalar("SELECT count(*) FROM erased WHERE digest IS NULL AND done_at IS NULL")
                .fetch_one(&self.system.database)
                .await
                .unwrap();
        assert_eq!(
            nameless, 0,
            "an erasure in progress has lost its digest, so a waiting send could create the user again"
        );
        let titles = self.titles();
        let taken = self.taken();
        for id in &self.load.cancelled {
            let title = &titles[&id.parse::<Uuid>().unwrap()];
            assert!(taken.keys().all(|(_, taken)| taken != title), "{title} was cancelled, but sent");
        }
        let (parked, dead): (i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM delivery WHERE status = 'parked' AND target LIKE '%@full.example'),
                    (SELECT count(*) FROM suppression WHERE target LIKE '%@dead.example')",
        )
        .fetch_one(&self.system.database)
        .await
        .unwrap();
        assert!(parked > 0 && dead == 1, "{parked} parked, {dead} dead");
    }

    /// Numbers of deliveries by status, and of messages that were accepted more than once.
    pub(crate) async fn summary(&self) -> String {
        let statuses: Vec<(String, String, i64)> =
            sqlx::query_as("SELECT channel, status, count(*) FROM delivery GROUP BY 1, 2 ORDER BY 1, 2")
                .fetch_all(&self.system.database)
                .await
                .unwrap();
        let statuses: Vec<_> =
            statuses.iter().map(|(channel, status, count)| format!("{channel} {status} {count}")).collect();
        let again = self.taken().values().filter(|calls| **calls > 1).count();
        let app: i64 =
            sqlx::query_scalar("SELECT min(id) FROM app").fetch_one(&self.system.database).await.unwrap();
        format!("app {}: {}; accepted again {again}", AppId(app), statuses.join(", "))
    }

    /// Number of accepted messages for each target and notification.
    fn taken(&self) -> HashMap<(String, String), usize> {
        let mut taken = HashMap::new();
        for capture in self.system.providers.outbox.captures() {
            let [target] = &capture.to[..] else {
                panic!("a message must have one recipient: {:?}", capture.to)
            };
            *taken.entry((target.clone(), numbered_send::title_in(&capture))).or_default() += 1;
        }
        taken
    }

    fn titles(&self) -> HashMap<Uuid, String> {
        let titles =
            self.load.sends.iter().map(|sent| (sent.id.parse().unwrap(), numbered_send::title(sent.number)));
        titles.collect()
    }

    async fn deliveries(&self) -> Vec<Delivery> {
        sqlx::query_as("SELECT id, send_id, channel, target, status FROM delivery WHERE target <> ''")
            .fetch_all(&self.system.database)
            .await
            .unwrap()
    }
}
