//! The run puts the system under load and injects faults. When no work remains, it runs the checks.
//!
//! `cargo xtask crash` runs only this test. `TIDINGS_TEST_CRASH_SEED` repeats the schedule of an earlier run, and
//! `TIDINGS_TEST_CRASH_LONG=1` selects the long run. `TIDINGS_TEST_CRASH_NOTIFICATIONS` sets the number of notifications.
//! `TIDINGS_TEST_NATS_SERVER` is the path of another nats-server.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{Lane, StreamName};
use suite::check::describe;
use tokio_util::sync::CancellationToken;

use crate::coverage::{Need, RunSize};
use crate::faults::schedule::{Schedule, Size};
use crate::faults::tally::Tally;
use crate::report::Report;
use crate::system::{Settings, System};
use crate::workload::{self, Observations, Workload};
use crate::{check, coverage, faults, idle, record};

/// Number of apps. The first, the large app, makes most sends.
const APPS: usize = 8;
/// Time for which clients continue to send after the last fault, so that the checks see enough sends without faults.
const AFTERWARDS: Duration = Duration::from_secs(20);

struct Run {
    seed: u64,
    is_long: bool,
    notifications: usize,
}

impl Run {
    fn from_environment() -> Run {
        let is_long = variable("TIDINGS_TEST_CRASH_LONG").is_some_and(|value| value != 0);
        let usual = if is_long { 200_000 } else { 20_000 };
        Run {
            seed: variable("TIDINGS_TEST_CRASH_SEED").unwrap_or_else(|| RandomState::new().hash_one(0)),
            is_long,
            notifications: variable("TIDINGS_TEST_CRASH_NOTIFICATIONS")
                .map_or(usual, |number| number as usize),
        }
    }

    fn size(&self) -> Size {
        if self.is_long { Size::LONG } else { Size::CI }
    }

    /// Expected maximum duration with the usual number of notifications, in seconds. The report shows it, but a longer run does
    /// not fail.
    fn may_take(&self) -> u64 {
        60 * if self.is_long { 30 } else { 4 }
    }
}

impl fmt::Display for Run {
    /// Formats the parameters as environment variables for a shell, so that the run can be repeated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { seed, is_long, notifications } = self;
        let long = u8::from(*is_long);
        write!(
            f,
            "TIDINGS_TEST_CRASH_SEED={seed} TIDINGS_TEST_CRASH_LONG={long} TIDINGS_TEST_CRASH_NOTIFICATIONS={notifications}"
        )
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_shown_twice() {
    let run = Run::from_environment();
    let (size, began) = (run.size(), Instant::now());
    let schedule = Schedule::new(run.seed, &size);
    println!("{run}\n{schedule}");

    let mut system = System::start(Settings { seed: run.seed, apps: APPS }).await;
    let of_work = workload::Size::of(run.notifications, schedule.length() + AFTERWARDS);
    let workload = Arc::new(Workload::prepare(&system.scene, of_work).await);
    let ready = Instant::now();
    let (observed, tally) = under_attack(&mut system, &workload, &schedule).await;
    let worked = Instant::now();
    let idle = idle::within(&mut system, idle::WITHIN).await;

    let checking = Instant::now();
    let record = record::gather(&system.scene, &workload, observed, tally.faults.clone()).await;
    let broken = check::failures(&record);
    let asked = RunSize { notifications: run.notifications, size };
    let needs = coverage::needs(asked, &record, &tally, in_bulk(&system).await);
    let mut report = Report::of(&mut system, &tally);
    (report.long, report.broker, report.may_take) = (run.is_long, broker(), run.may_take());
    report.needs.clone_from(&needs);
    report.add(&record, &broken);
    for (what, time) in [
        ("to start", ready - began),
        ("of work", worked - ready),
        ("until idle", checking - worked),
        ("to check", checking.elapsed()),
    ] {
        report.took(what, time);
    }
    println!("{report}");
    report.keep();
    let hanging = idle.err().unwrap_or_default();
    assert!(hanging.is_empty() && broken.is_empty(), "{run}\n{hanging}\n{}", describe(&broken));
    let too_few: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    assert!(too_few.is_empty(), "{run}\nthe run does not count: {too_few:#?}");
}

/// Runs load and faults together. Returns when every send is accepted and every process is ready again.
async fn under_attack(
    system: &mut System,
    workload: &Arc<Workload>,
    schedule: &Schedule,
) -> (Observations, Tally) {
    let over = CancellationToken::new();
    let working = async {
        let observed = workload.run().await;
        over.cancel();
        observed
    };
    tokio::join!(working, faults::inject(system, schedule, &over))
}

/// Counts the messages in the streams of the bulk lane.
async fn in_bulk(system: &System) -> u64 {
    let mut messages = 0;
    for stream in StreamName::all(system.scene.partitions) {
        if let StreamName::Send(Lane::Bulk) | StreamName::Job(_, Lane::Bulk) = stream {
            messages += system.log.state(stream).await.unwrap().last_seq;
        }
    }
    messages
}

/// Version line of nats-server, such as `nats-server: v2.9.10`.
fn broker() -> String {
    let program = std::env::var("TIDINGS_TEST_NATS_SERVER").unwrap_or("nats-server".to_owned());
    let reported = Command::new(program).arg("--version").output().map(|output| output.stdout);
    String::from_utf8_lossy(&reported.unwrap_or_default()).trim().to_owned()
}
