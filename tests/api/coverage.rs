//! Record of the statuses that each operation of the API returned during a run, collected from all test processes.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::contract::Contract;
use crate::service::{Backing, Service};

/// Records that an operation was answered with this status.
pub(crate) fn record(operation: &str, status: u16) {
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
    fs::create_dir_all(folder()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(folder().join(run)).unwrap();
    file.write_all(format!("{status} {operation}\n").as_bytes()).unwrap();
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("exercised")
}

/// Reads the operations and statuses of the last run.
fn last_run() -> BTreeSet<(String, u16)> {
    let files = fs::read_dir(folder()).expect("no run of the suite left a record").map(Result::unwrap);
    let age = |file: &fs::DirEntry| file.metadata().unwrap().modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let last = files.max_by_key(age).expect("no run of the suite left a record");
    let lines = fs::read_to_string(last.path()).unwrap();
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(status, operation)| (operation.to_owned(), status.parse().unwrap())).collect()
}

/// Run this after the whole suite: `cargo test -p suite --test api -- --ignored exercised --nocapture`.
#[tokio::test]
#[ignore = "reads the record of a whole run of the suite"]
async fn every_declared_success_was_exercised() {
    let seen = last_run();
    let service = Service::start_with(Backing::Nothing).await;
    let url = format!("http://{}", service.address).parse().unwrap();
    let contract = Contract::of(&reqwest::Client::new(), &url).await;
    let operations: BTreeSet<_> = seen.iter().map(|(operation, _)| operation).collect();
    println!("{} operations, {} pairs of operation and status", operations.len(), seen.len());
    let successes = contract.successes();
    // An operation answers 202 instead of 200 if its change is not visible in time. All operations use the same code for this,
    // so one test of it is enough.
    let is_late =
        |(operation, status): &(String, u16)| *status == 202 && successes.contains(&(operation.clone(), 200));
    let missing: Vec<_> = successes.iter().filter(|one| !seen.contains(*one) && !is_late(one)).collect();
    assert!(missing.is_empty(), "declared but never answered in the suite: {missing:#?}");
}
