//! The run puts the system under load and injects faults. When no work remains, it runs the checks. Before the first fault, it
//! measures the speed of the machine, and stretches its times on a slow one.
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

use crate::conditions::Conditions;
use crate::coverage::RunSize;
use crate::faults::schedule::{Schedule, Size};
use crate::faults::tally::Tally;
use crate::idle::Waiting;
use crate::record::Record;
use crate::report::Report;
use crate::scene::Fault;
use crate::speed::Speed;
use crate::stalls::Stalls;
use crate::system::{Settings, System};
use crate::workload::{self, Observations, Workload};
use crate::{check, coverage, faults, idle, record, speed};

/// Number of apps. The first, the large app, makes most sends.
const APPS: usize = 8;
/// Time for which clients continue to send after the last fault, so that the checks see enough sends without faults.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// Maximum number of times that the record is assembled, until the log does not grow meanwhile.
const MOST_READINGS: usize = 3;

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
    fn may_take(&self, speed: Speed) -> u64 {
        let minutes = if self.is_long { 30.0 } else { 4.0 };
        (60.0 * minutes * speed.stretch()).round() as u64
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
    println!("{run}");
    let began = Instant::now();
    let attack = run.prepare().await;
    let (speed, ready) = (attack.speed, Instant::now());
    let Attack { mut system, workload, schedule, .. } = attack;
    let stalls = Stalls::watch();
    let (observed, tally) = under_attack(&mut system, &workload, &schedule).await;
    let worked = Instant::now();
    let limit = idle::WITHIN.mul_f64(speed.stretch());
    let waiting = idle::wait(&mut system, limit).await;

    let checking = Instant::now();
    let conditions = Conditions {
        stretch: speed.stretch(),
        lease: speed.lease(),
        processors: (speed.processors, speed::free_processors().await),
        stalls: stalls.stop(),
    };
    let observed = (observed, tally.faults.clone(), conditions);
    let record = record_at_rest(&mut system, &workload, observed, waiting).await;
    let asked = RunSize { notifications: run.notifications, size: run.size() };
    let needs = coverage::needs(asked, &record, &tally, in_bulk(&system).await);
    let too_few = coverage::too_few(&needs, record.conditions.is_slow());
    let results = check::results(&record, &too_few.checks);
    let mut report = Report::of(&mut system, &tally);
    (report.long, report.broker, report.may_take) = (run.is_long, broker(), run.may_take(speed));
    (report.needs, report.speed) = (needs, Some(speed));
    report.add(&record, &results);
    for (what, time) in [
        ("to start", ready - began),
        ("of work", worked - ready),
        ("until idle", record.waiting.took),
        ("to check", checking.elapsed()),
    ] {
        report.took(what, time);
    }
    println!("{report}");
    report.keep();
    assert!(results.broken.is_empty(), "{run}\n{}", describe(&results.broken));
    assert!(too_few.needs.is_empty(), "{run}\nthe run does not count: {:#?}", too_few.needs);
}

/// A system and its load, ready for the first fault.
struct Attack {
    speed: Speed,
    system: System,
    workload: Arc<Workload>,
    schedule: Schedule,
}

impl Run {
    /// Starts the system, and stretches load and faults for the speed of this machine.
    ///
    /// # Panics
    /// The machine is too slow, so that nothing is judged.
    async fn prepare(&self) -> Attack {
        let schedule = Schedule::new(self.seed, &self.size());
        let of_work = workload::Size::of(self.notifications, schedule.length() + AFTERWARDS);
        let mut speed = Speed {
            processors: speed::free_processors().await,
            sends_per_second: None,
            planned_per_second: of_work.sends_per_second(),
        };
        if let Some(reason) = speed.too_slow() {
            self.refuse(speed, &reason);
        }
        let settings = Settings { seed: self.seed, apps: APPS, patience: speed.patience() };
        let system = System::start(settings).await;
        let mut workload = Workload::prepare(&system.scene, of_work).await;
        speed.sends_per_second = Some(workload.measure().await);
        if let Some(reason) = speed.too_slow() {
            // Stop the servers before the panic, so that the files of the run are removed.
            drop((workload, system));
            self.refuse(speed, &reason);
        }
        workload.stretch(speed.stretch());
        let schedule = schedule.stretched(speed.stretch());
        println!("{speed}; all times are stretched by {:.2}\n{schedule}", speed.stretch());
        Attack { speed, system, workload: Arc::new(workload), schedule }
    }

    /// Ends a run on a machine that is too slow.
    ///
    /// # Panics
    /// Always: the test must not pass, because a passed test means that the guarantees held.
    fn refuse(&self, speed: Speed, reason: &str) -> ! {
        Report::of_nothing(self.seed, speed, reason.to_owned()).keep();
        panic!("{self}\nNOTHING WAS JUDGED, and no guarantee was broken: {reason}");
    }
}

/// Injects the faults while the load runs. Returns when every send is accepted and every process is ready again.
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

/// Assembles the record. If messages are added to the log meanwhile, waits until no work is left and repeats, because the checks for
/// lost and repeated sends can judge only a system at rest.
async fn record_at_rest(
    system: &mut System,
    workload: &Workload,
    (observed, faults, conditions): (Observations, Vec<Fault>, Conditions),
    waiting: Waiting,
) -> Record {
    let mut readings = 1;
    loop {
        let (observed, faults, conditions) = (observed.clone(), faults.clone(), conditions.clone());
        let record = record::gather(&system.scene, workload, observed, faults, conditions).await;
        if record.meanwhile == 0 || waiting.left.is_some() || readings == MOST_READINGS {
            return Record { waiting, ..record };
        }
        println!("{} messages were added while the record was assembled; repeating", record.meanwhile);
        readings += 1;
        idle::wait(system, idle::WITHIN).await;
    }
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
