//! Tests of use cases, on a real database.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod apps;
mod audit;
mod explain;
mod installation;
mod own_data;
mod own_permissions;
mod permissions;
mod provider_sign_ins;
mod providers;
mod receipts;
mod redrives;
mod sends;
mod system;
mod templates;
mod tokens;
mod webhooks;

use std::net::Ipv4Addr;

use credentials::{MasterKey, Security};
use domain::{AppId, Role};
use operations::apps::creation::{self, PublicAccess};
use operations::{Caller, Grant, MasterKeySource, Operations};
use sqlx::{Connection as _, PgConnection};
use store::database::audit::AuditRow;
use store::{Settings, Store};
use testkit::Database;

/// An installation with the app `shop`.
struct World {
    database: Database,
    store: Store,
    master_key: MasterKeySource,
    operations: Operations,
    admin: Caller,
    shop: AppId,
}

async fn world() -> World {
    let database = Database::with_schema().await;
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let master_key = MasterKey::generate_file(&folder.path().join("key")).unwrap();
    let master_key = MasterKeySource::Loaded(master_key);
    let operations = Operations::new(store.clone(), master_key.clone(), false);
    let admin = Caller::of_command("ada".to_owned());
    let shop = creation::create(&operations, &admin, "shop", PublicAccess::Closed).await.unwrap().id;
    World { database, store, master_key, operations, admin, shop }
}

impl World {
    /// The same installation, in a process without a configured master key.
    fn without_key(&self) -> Operations {
        let security =
            Security { master_key_file: None, previous_master_key_file: None, lost_master_keys: Vec::new() };
        Operations::new(self.store.clone(), MasterKeySource::Configured(security), false)
    }

    fn operator(&self, role: Role) -> Caller {
        Caller::operator(7, vec![Grant { role, app: Some(self.shop) }])
    }

    fn backend(&self) -> Caller {
        Caller::backend(self.shop, Ipv4Addr::LOCALHOST.into())
    }

    /// Runs an SQL statement.
    async fn run(&self, statement: &'static str) {
        let mut connection = PgConnection::connect(self.database.url()).await.unwrap();
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
    }

    async fn audit(&self) -> Vec<AuditRow> {
        self.store.database().list_audit(self.shop.into(), 100).await.unwrap()
    }
}
