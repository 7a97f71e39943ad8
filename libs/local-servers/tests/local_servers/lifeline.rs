//! Checks that servers end if the process that started them is killed with SIGKILL.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use local_servers::{NatsServer, Postgres};

use testkit::eventually;

const DIRECTORY: &str = "TESTKIT_LIFELINE_DIRECTORY";

/// This function checks nothing. The test below starts it in a separate process and kills that process.
#[tokio::test]
#[ignore = "started by the test below"]
async fn run_servers_until_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let _postgres = Postgres::start_fast(&directory.join("postgres")).await.unwrap();
    let _nats = NatsServer::start_in(&directory.join("nats")).await.unwrap();
    std::fs::write(directory.join("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn servers_end_with_their_process_and_release_their_directories() {
    let files = tempfile::tempdir().unwrap();
    let mut starter = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "lifeline::run_servers_until_killed"])
        .env(DIRECTORY, files.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = async || files.path().join("ready").exists().then_some(());
    eventually(Duration::from_secs(60), "both servers run", ready).await;
    assert!(
        testkit::processes::naming(files.path()).len() >= 2,
        "the test cannot see the servers that it looks for"
    );

    starter.kill().unwrap();
    starter.wait().unwrap();
    let _postgres = Postgres::start_fast(&files.path().join("postgres")).await.unwrap();
    let _nats = NatsServer::start_in(&files.path().join("nats")).await.unwrap();
}
