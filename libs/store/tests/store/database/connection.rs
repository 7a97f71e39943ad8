//! Connections that break while the pool holds them.

use testkit::eventually;

use crate::{LIMIT, fixture};

#[tokio::test]
async fn a_connection_that_broke_while_idle_is_an_outage_and_is_replaced() {
    let fixture = fixture().await;
    let store = fixture.another("").await;
    store.ping().await.unwrap();
    let terminated = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(fixture.count(terminated).await > 0);
    eventually(LIMIT, "the pool has a new connection", async || match store.ping().await {
        Ok(()) => Some(()),
        Err(error) => {
            assert!(error.is_unavailable(), "{error}");
            None
        }
    })
    .await;
}
