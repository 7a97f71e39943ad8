//! `tidings up` when a server or the command itself is killed.

use std::process::Command;

use crate::descendants::Descendant;
use crate::directory::Directory;
use crate::running::RunningProcess;
use crate::up::all_gone;

fn kill(id: u32) {
    assert!(Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success());
}

fn nats(processes: &[Descendant]) -> u32 {
    processes.iter().find(|process| process.name == "nats-server").unwrap().id
}

#[tokio::test]
async fn up_exits_1_and_names_a_dead_server_and_its_log() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut running = RunningProcess::start(&data).await;
    let before = running.descendants();
    kill(nats(&before));
    assert_eq!(running.exit_code().await, 1);
    let log = running.log();
    let reported = log.lines().rfind(|line| line.contains("nats-server has ended")).expect(&log);
    assert!(reported.contains(data.join("nats").to_str().unwrap()), "{reported}");
    assert!(!running.has_dev_file());
    all_gone(&before).await;
}

#[tokio::test]
async fn after_a_kill_no_process_is_left_and_up_starts_again() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut running = RunningProcess::start(&data).await;
    let before = running.descendants();
    kill(running.service.id());
    assert!(running.has_dev_file(), "the killed process had no chance to remove dev.json");
    all_gone(&before).await;
    let stale = directory.run(&["app", "list", "--data-dir", "data"]);
    assert_eq!(stale.code, 1);
    assert!(stale.errors.contains("start it again"), "{}", stale.errors);

    let secret = running.dev("apiSecret").to_owned();
    running = RunningProcess::start(&data).await;
    assert_eq!(running.dev("apiSecret"), secret);
    assert_eq!(running.stop().await, 0, "{}", running.log());
}
