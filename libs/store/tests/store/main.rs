//! The store's contract on a real PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod app;
mod category;
mod device;
mod idempotency;
mod inbox;
mod provider;
mod request;
mod template;

use domain::AppId;
use sqlx::PgPool;
use store::app::{NewApp, NewSecret};
use store::{Settings, Store};
use testkit::Database;

/// A database of its own with today's schema.
pub struct Fixture {
    pub store: Store,
    /// For what the store has no statement for.
    pub pool: PgPool,
    _database: Database,
}

pub async fn fixture() -> Fixture {
    let database = Database::create().await;
    let store = Store::connect(&Settings {
        url: database.url().to_owned(),
        max_connections: 4,
    })
    .await
    .unwrap();
    store.migrate().await.unwrap();
    let pool = PgPool::connect(database.url()).await.unwrap();
    Fixture {
        store,
        pool,
        _database: database,
    }
}

impl Fixture {
    /// An app whose API key and secret's digest are its name.
    pub async fn app(&self, name: &str) -> AppId {
        let app = NewApp {
            name,
            api_key: name,
            development: true,
        };
        let draft = self.store.create_app(app, "test").await.unwrap().unwrap();
        draft
            .commit(NewSecret {
                digest: name.as_bytes(),
                sealed: b"sealed",
            })
            .await
            .unwrap()
    }
}
