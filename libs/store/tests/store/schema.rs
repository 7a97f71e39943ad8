//! The schema's version, and migrations that run again or at once.

use store::{Settings, Store};
use testkit::Database;

#[tokio::test]
async fn the_version_is_that_of_the_last_migration() {
    let database = Database::create().await;
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let (first, second) =
        (Store::connect(&settings).await.unwrap(), Store::connect(&settings).await.unwrap());
    assert_eq!(first.schema_version().await.unwrap(), None);
    let (one, other) = tokio::join!(first.migrate(), second.migrate());
    one.unwrap();
    other.unwrap();
    let version = first.schema_version().await.unwrap();
    assert!(version >= Some(4), "{version:?}");
    first.migrate().await.unwrap();
    assert_eq!(second.schema_version().await.unwrap(), version);
}
