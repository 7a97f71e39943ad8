//! The short form of `harness`: runs each of its phases for two seconds, and checks that no job is lost, and that none is repeated or
//! refused without a fault. It measures nothing.
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
    // With one sample per phase, a phase whose last sample is left out has none.
    let small =
        ["--seconds=2", "--sample=2", "--rate=40", "--depth=60", "--workers=8", "--lease=5s", "--unsynced"];
    let options = Options::parse_from(["harness"].into_iter().chain(small));
    let report = Box::pin(harness::run(&options)).await;
    println!("{report}");
    let reported: Vec<Kind> = report.phases.iter().map(|phase| phase.phase).collect();
    let kinds = Kind::value_variants().iter().copied();
    assert_eq!(reported, kinds.filter(|kind| *kind != Kind::Warmup).collect::<Vec<_>>());
    assert_eq!(report.lost(), 0, "lost jobs\n{report}");
    assert!(report.problems.is_empty(), "{:?}\n{report}", report.problems);
    for phase in &report.phases {
        assert!(phase.offered > 0 && phase.depth.is_some(), "{:?}\n{report}", phase.phase);
        if !phase.phase.may_refuse() {
            assert_eq!(phase.refused, 0, "{:?}\n{report}", phase.phase);
        }
        assert_eq!(phase.not_sent, 0, "{:?}\n{report}", phase.phase);
        assert!(phase.accepted > 0, "{:?}\n{report}", phase.phase);
    }
    let before_faults = report.phases.iter().take_while(|phase| !phase.phase.is_fault());
    assert_eq!(before_faults.map(|phase| phase.repeated).sum::<u64>(), 0, "repeated calls\n{report}");
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
