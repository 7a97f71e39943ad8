//! Tests of the store on a real PostgreSQL server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod descriptions;
#[path = "../../../domain/tests/domain/ledger_model.rs"]
mod ledger_model;
mod pinned;
mod plans;
mod protocol;
mod source;

mod control {
    mod app;
    mod provider;
    mod refused_call;
    mod setting;
    mod signing_key;
    mod template;
}

mod database {
    mod audit;
    mod batch;
    mod connection;
    mod failure;
    mod installation;
    mod migration;
    mod pooler;
    mod schema;
    mod sealed;
    mod snapshot;
    mod transaction;
}

mod deliveries {
    mod attachment;
    pub(crate) mod cancellation;
    mod fast_path;
    mod ledger;
    mod receipt;
    mod redrive;
    mod redrive_run;
    mod settlement;
    mod suppression;
    mod timer;
    mod transition;
}

mod directory {
    mod category;
    mod device;
    mod preference;
    mod topic;
    mod web_push;
}

mod erasure {
    mod claims;
    mod messages;
    pub(crate) mod user;
}

mod inbox {
    mod list;
    mod projection;
    mod retention;
}

mod recovery {
    mod restore;
    mod shadow;
}

mod sends {
    mod cancellation_key;
    mod idempotency;
    pub(crate) mod plan;
    mod retention;
    mod send;
    mod status;
}

mod webhooks {
    mod search;
    mod slots;
    mod webhook;
}

use std::time::Duration;

use domain::content::InAppContent;
use domain::overrides::Overrides;
use domain::send::Recipient;
use domain::{Actor, AppId, DeliveryId, Lane, SendId, Timestamp};
use sqlx::PgPool;
use store::control::app::{NewApp, NewSecret};
use store::{Settings, Store};
use testkit::{Database, eventually};
use uuid::Uuid;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// 2026-01-02T03:04:05Z
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

/// A separate database with the current schema.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    /// Connections for the tests' own SQL statements.
    pub(crate) pool: PgPool,
    database: Database,
}

pub(crate) async fn fixture() -> Fixture {
    let database = Database::with_schema().await;
    let store =
        Store::connect(&Settings { url: database.url().to_owned(), max_connections: 12 }).await.unwrap();
    let pool = PgPool::connect(database.url()).await.unwrap();
    Fixture { store, pool, database }
}

impl Fixture {
    /// Creates an app. Its name is also its API key and the digest of its secret.
    pub(crate) async fn app(&self, name: &str) -> AppId {
        let app = NewApp { name, api_key: name, development: true };
        let draft = self.store.control().create_app(app, &Actor::System).await.unwrap().unwrap();
        draft.commit(NewSecret { digest: name.as_bytes(), sealed: b"sealed" }).await.unwrap()
    }

    /// Adds `count` queued email deliveries of send 1. Delivery n belongs to user n, from 1.
    pub(crate) async fn deliveries(&self, app: AppId, count: i64) -> Vec<DeliveryId> {
        let ids: Vec<Uuid> =
            (1..=count).map(|number| Uuid::from_u128(number.cast_unsigned().into())).collect();
        sqlx::query(
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
             SELECT $1, id, $2, number - 1, number, 'email', 'user-' || number || '@example.com'
             FROM unnest($3::uuid[]) WITH ORDINALITY AS new (id, number)",
        )
        .bind(app.0)
        .bind(Uuid::from_u128(1))
        .bind(&ids)
        .execute(&self.pool)
        .await
        .unwrap();
        ids.into_iter().map(DeliveryId).collect()
    }

    /// Opens another store on the same database, with one connection. `settings` is appended to the query string of the URL.
    pub(crate) async fn another(&self, settings: &str) -> Store {
        let url = format!("{}?application_name=test{settings}", self.database.url());
        Store::connect(&Settings { url, max_connections: 1 }).await.unwrap()
    }

    pub(crate) async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a statement in this database is blocked by a lock.
    pub(crate) async fn somebody_waits(&self) {
        eventually(LIMIT, "a statement waits for a lock", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                           WHERE datname = current_database() AND wait_event_type = 'Lock'";
            (self.count(waiting).await > 0).then_some(())
        })
        .await;
    }
}

pub(crate) fn send_id(number: u128) -> SendId {
    SendId(Uuid::from_u128(number))
}

/// Returns a send with a title, in the transactional lane.
pub(crate) fn send_to(recipients: Vec<Recipient>) -> domain::SendRequest {
    let content = InAppContent { title: Some("Title".to_owned()), ..InAppContent::default() };
    domain::SendRequest {
        content,
        template: None,
        category: None,
        recipients,
        topics: Vec::new(),
        exclude: Vec::new(),
        channels: None,
        proven_targets: false,
        cancellation_key: None,
        overrides: Overrides::default(),
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    }
}

pub(crate) fn recipient(identifier: &str) -> Recipient {
    Recipient::plain(identifier.to_owned())
}

/// Pseudo-random numbers that are the same in every run (splitmix64).
pub(crate) struct RandomNumbers(pub(crate) u64);

impl RandomNumbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for end in (1..items.len()).rev() {
            items.swap(end, usize::try_from(self.below(end as u64 + 1)).unwrap());
        }
        items
    }
}
