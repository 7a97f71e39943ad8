//! The short form of `harness`: runs each of its phases for two seconds, and checks that no job is lost. It measures nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(dead_code, reason = "the benchmark uses more of these modules")]

mod harness;
mod installation;
mod machine;
mod old_sends;
#[path = "check/role.rs"]
mod role;

use clap::{Parser, ValueEnum};

use crate::harness::{Kind, Options};

#[tokio::test(flavor = "multi_thread")]
async fn every_phase_is_reported_and_loses_nothing() {
    let small =
        ["--seconds=2", "--sample=1", "--rate=40", "--depth=60", "--workers=8", "--lease=5s", "--unsynced"];
    let options = Options::parse_from(["harness"].into_iter().chain(small));
    let report = Box::pin(harness::run(&options)).await;
    println!("{report}");
    let reported: Vec<Kind> = report.phases.iter().map(|phase| phase.phase).collect();
    let kinds = Kind::value_variants().iter().copied();
    assert_eq!(reported, kinds.filter(|kind| *kind != Kind::Warmup).collect::<Vec<_>>());
    assert_eq!(report.lost(), 0, "lost jobs\n{report}");
    for phase in &report.phases {
        assert_eq!(phase.not_sent, 0, "{:?}\n{report}", phase.phase);
        assert!(phase.accepted > 0, "{:?}\n{report}", phase.phase);
    }
    // In two seconds, pg-backend-kill may find no busy session, and pool-exhaustion may not open all sessions.
    for (kind, faults) in
        [(Kind::KillWorker, 1), (Kind::StartWorker, 1), (Kind::PostgresRestart, 1), (Kind::RepeatedKill, 6)]
    {
        let phase = report.phases.iter().find(|phase| phase.phase == kind).unwrap();
        assert_eq!(phase.faults, Some(faults), "{kind:?}\n{report}");
    }
    let storm = report.phases.iter().find(|phase| phase.phase == Kind::RetryStorm).unwrap();
    assert!(storm.failed_attempts > 0, "the provider refused nothing\n{report}");
    let starved = report.phases.iter().find(|phase| phase.phase == Kind::PriorityStarvation).unwrap();
    assert!(starved.completed_in_bulk > 0, "the bulk lane starved\n{report}");
}
