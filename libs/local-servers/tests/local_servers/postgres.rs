use std::path::Path;

use local_servers::Postgres;
use sqlx::{Connection, PgConnection, query, query_scalar};
use testkit::Database;

async fn write_row(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    query("CREATE TABLE kept (value integer)").execute(&mut connection).await.unwrap();
    query("INSERT INTO kept VALUES (42)").execute(&mut connection).await.unwrap();
}

async fn read_row(url: &str) -> i32 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    query_scalar("SELECT value FROM kept").fetch_one(&mut connection).await.unwrap()
}

/// Starts PostgreSQL without `fsync`, because the tests kill the process, not the machine.
async fn start(files: &Path) -> Postgres {
    Postgres::start_fast(&files.join("postgres")).await.unwrap()
}

#[tokio::test]
async fn postgres_keeps_rows_and_address_over_a_kill_and_restart() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = start(files.path()).await;
    let url = postgres.url().to_owned();
    write_row(&url).await;

    postgres.kill();
    assert!(PgConnection::connect(&url).await.is_err(), "a killed server answers");
    postgres.restart().await.unwrap();

    assert_eq!(postgres.url(), url);
    assert_eq!(read_row(&url).await, 42);
}

#[tokio::test]
async fn committed_rows_survive_an_immediate_stop() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = start(files.path()).await;
    let url = postgres.url().to_owned();
    write_row(&url).await;

    postgres.stop_immediately().await.unwrap();
    assert!(!postgres.is_running().unwrap());
    assert!(PgConnection::connect(&url).await.is_err(), "a stopped server answers");
    postgres.restart().await.unwrap();

    assert_eq!(read_row(&url).await, 42);
}

#[tokio::test]
async fn a_stopped_cluster_can_be_started_again_and_a_dropped_one_leaves_no_process() {
    let files = tempfile::tempdir().unwrap();
    let postgres = start(files.path()).await;
    write_row(postgres.url()).await;
    assert!(
        !testkit::processes::naming(files.path()).is_empty(),
        "the test cannot see the processes that it looks for"
    );
    postgres.stop().await.unwrap();
    testkit::processes::gone(files.path()).await;

    let again = start(files.path()).await;
    assert_eq!(read_row(again.url()).await, 42);
    drop(again);
    testkit::processes::gone(files.path()).await;

    let third = start(files.path()).await;
    assert_eq!(read_row(third.url()).await, 42);
}

#[tokio::test]
async fn a_second_instance_on_the_same_directory_is_refused_by_name() {
    let files = tempfile::tempdir().unwrap();
    let first = start(files.path()).await;
    let error = Postgres::start_fast(&files.path().join("postgres")).await.unwrap_err().to_string();
    assert!(error.contains("another running instance uses"), "{error}");
    assert!(error.contains(files.path().to_str().unwrap()), "{error}");
    drop(first);
}

#[tokio::test]
async fn an_interrupted_first_start_is_repeated() {
    let files = tempfile::tempdir().unwrap();
    let directory = files.path().join("postgres");
    std::fs::create_dir_all(directory.join("data").join("base")).unwrap();
    std::fs::write(directory.join("data").join("PG_VERSION"), "15\n").unwrap();
    let postgres = start(files.path()).await;
    write_row(postgres.url()).await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_the_password_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let files = tempfile::tempdir().unwrap();
    let postgres = start(files.path()).await;
    let open = format!("postgres://tidings:wrong@127.0.0.1:{}/tidings", postgres.port());
    assert!(PgConnection::connect(&open).await.is_err());
    let password = files.path().join("postgres").join("password");
    assert_eq!(password.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn databases_of_one_test_are_separate_and_empty() {
    let first = Database::create().await;
    let second = Database::create().await;
    write_row(first.url()).await;
    write_row(second.url()).await;
    assert_ne!(first.url(), second.url());
}

#[tokio::test]
async fn dropping_a_database_removes_it() {
    let kept = Database::create().await;
    let dropped = Database::create().await;
    let url = dropped.url().to_owned();
    drop(dropped);
    if std::env::var_os("TIDINGS_TEST_DATABASE_URL").is_some() {
        assert!(PgConnection::connect(&url).await.is_err());
    }
    PgConnection::connect(kept.url()).await.unwrap();
}
