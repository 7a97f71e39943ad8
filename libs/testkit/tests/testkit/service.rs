use std::path::Path;
use std::time::Duration;

use testkit::{Service, eventually};

const SOON: Duration = Duration::from_secs(10);

/// Starts `with-test-cluster`, which starts a shell and waits for it. `mark` is in the command lines of both processes.
fn start(mark: &Path) -> Service {
    let script = "echo started by $NAME; exec tail -f /dev/null";
    let mark = mark.to_str().unwrap();
    let environment = [("TIDINGS_TEST_DATABASE_URL", "postgres://none"), ("NAME", "the test")];
    Service::start("with-test-cluster", &["sh", "-c", script, mark], &environment).unwrap()
}

async fn started(service: &Service, times: usize) {
    let count = || std::fs::read_to_string(service.log()).unwrap().matches("started by the test").count();
    eventually(SOON, "the service has started", async || (count() == times).then_some(())).await;
}

#[tokio::test]
async fn a_service_has_its_environment_and_keeps_its_log_over_restarts() {
    let mark = tempfile::tempdir().unwrap();
    let mut service = start(mark.path());
    started(&service, 1).await;
    assert!(service.is_running().unwrap());

    service.kill();
    assert!(!service.is_running().unwrap());
    testkit::processes::gone(mark.path()).await;

    let first = service.id();
    service.restart().unwrap();
    started(&service, 2).await;
    assert_ne!(service.id(), first);
}

#[tokio::test]
async fn one_run_can_have_another_environment_and_the_log_stays_in_place() {
    let files = tempfile::tempdir().unwrap();
    let log = files.path().join("kept.log");
    let script = ["-c", "echo \"it is $NAME.\"; exec tail -f /dev/null"];
    let environment = [("NAME", "first")];
    let mut service = Service::start_logged(Path::new("/bin/sh"), &script, &environment, &log).unwrap();
    let printed = async |lines: &str| {
        let text = || std::fs::read_to_string(&log).unwrap_or_default();
        eventually(SOON, "the program prints its name", async || (text() == lines).then_some(())).await;
    };
    printed("it is first.\n").await;
    service.restart_with(&[("NAME", "second")]).unwrap();
    printed("it is first.\nit is second.\n").await;
    assert_eq!(service.words(), "it is second.\n");
    assert!(service.last_words().ends_with("\nit is second."));
    service.restart().unwrap();
    printed("it is first.\nit is second.\nit is first.\n").await;
    drop(service);
    assert!(log.exists());
}

#[tokio::test]
async fn a_service_can_be_paused_and_resumed_and_ends_on_sigterm() {
    let mark = tempfile::tempdir().unwrap();
    let mut service = start(mark.path());
    started(&service, 1).await;
    let state = |service: &Service| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix("State:\t")).unwrap().chars().next().unwrap()
    };
    service.pause().unwrap();
    assert_eq!(state(&service), 'T');
    service.resume().unwrap();
    assert_ne!(state(&service), 'T');
    service.pause().unwrap();
    assert_eq!(state(&service), 'T');
    service.resume().unwrap();

    service.terminate().unwrap();
    let ended = async || (!service.is_running().unwrap()).then_some(());
    eventually(SOON, "the service has ended", ended).await;
    // Pausing a process that has just ended is no error.
    service.pause().unwrap();
}

#[tokio::test]
async fn dropping_a_service_kills_its_children() {
    let mark = tempfile::tempdir().unwrap();
    let service = start(mark.path());
    started(&service, 1).await;
    assert!(
        !testkit::processes::naming(mark.path()).is_empty(),
        "the test cannot see the processes that it looks for"
    );
    drop(service);
    testkit::processes::gone(mark.path()).await;
}

#[test]
#[should_panic(expected = "run `cargo build --workspace --bins --tests` first")]
fn a_missing_program_is_reported_with_the_build_command() {
    testkit::binary("tidings-that-does-not-exist");
}
