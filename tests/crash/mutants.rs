//! The checks can fail: each mutant breaks one rule of the product in all its processes, and a short run under faults
//! that let it bite ends with a named check that says so. The same run without a mutant passes, and comes to rest in the
//! same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::Status;
use sabotage::{CrashPoint, Mutant};
use tokio_util::sync::CancellationToken;

use crate::faults;
use crate::faults::schedule::Schedule;
use crate::faults::strike::{Planned, Strike};
use crate::record::Record;
use crate::system::part::{Name, Role};
use crate::system::{Settings, System};
use crate::workload::{Size, Workload};
use crate::{check, quiet, record};

const SEED: u64 = 5;
const APPS: usize = 2;
/// Over how long the sends are spread.
const LASTING: Duration = Duration::from_secs(8);
/// How long it is waited for what a mutant does at once, and what no later moment takes back.
const BRIEFLY: Duration = Duration::from_secs(5);
/// So that whoever is paused is in the middle of a call.
const STALLS: f64 = 0.1;
/// A short run has no time without the effects of a fault.
const TOO_SHORT_FOR: &str = check::SMALL_APPS_DO_NOT_WAIT;

/// How a mutant is caught.
struct Case {
    mutant: Mutant,
    caught_by: &'static str,
    /// What is done meanwhile.
    strikes: fn() -> Vec<Planned>,
    trace: Trace,
}

/// What a mutant leaves in the record.
#[derive(Clone, Copy, PartialEq)]
enum Trace {
    /// Rows that the check finds whenever it looks: a system that is still busy has none of them.
    Rows,
    /// A delivery of this status, with nothing left that would bring it to an end.
    Forgotten(Status),
    /// A checkpoint that went back.
    StepBack,
}

/// What a run came to.
struct Outcome {
    record: Record,
    failures: BTreeMap<&'static str, Vec<String>>,
    /// What was left to do, where something was.
    rest: Result<Duration, String>,
}

impl Outcome {
    fn shows(&self, trace: Trace) -> bool {
        let tables = &self.record.tables;
        match trace {
            Trace::Rows => true,
            Trace::Forgotten(status) => {
                self.rest.is_ok() && tables.deliveries.values().any(|delivery| delivery.status == status)
            }
            Trace::StepBack => !tables.stepped_back.is_empty(),
        }
    }
}

const CASES: &[Case] = &[
    Case {
        mutant: Mutant::UnfencedCheckpoint,
        caught_by: "checkpoints only grow, to the end of the log",
        strikes: pauses_of_projections,
        trace: Trace::StepBack,
    },
    Case {
        mutant: Mutant::AckBeforeSettle,
        caught_by: "every confirmed send has ended for everybody",
        strikes: deaths_before_settling,
        trace: Trace::Forgotten(Status::Sending),
    },
    Case {
        mutant: Mutant::RandomDeliveryIds,
        caught_by: "delivery ids follow from what is delivered",
        strikes: Vec::new,
        trace: Trace::Rows,
    },
    Case {
        mutant: Mutant::UntokenedSettle,
        caught_by: "only the last claim settles",
        strikes: pauses_beyond_the_lease,
        trace: Trace::Rows,
    },
    Case {
        mutant: Mutant::PlanNotFrozen,
        caught_by: "a chunk is planned once",
        strikes: deaths_after_freezing,
        trace: Trace::Rows,
    },
    Case {
        mutant: Mutant::TimerUnderOldId,
        caught_by: "every confirmed send has ended for everybody",
        strikes: Vec::new,
        trace: Trace::Forgotten(Status::Retrying),
    },
    Case {
        mutant: Mutant::AnswerBeforeAck,
        caught_by: "every confirmed send is in the log",
        strikes: deaths_of_the_broker,
        trace: Trace::Rows,
    },
];

fn planned(seconds: f64, strike: Strike) -> Planned {
    Planned { at: Duration::from_secs_f64(seconds), strike }
}

fn both(role: Role) -> [Name; 2] {
    [1, 2].map(|number| Name { role, number })
}

fn crash(at: Name, point: CrashPoint, passage: u64) -> Strike {
    Strike::Crash { at, point, passage }
}

/// One after the other.
fn pauses_of_projections() -> Vec<Planned> {
    let pause = |(name, at)| planned(at, Strike::Pause(name, Duration::from_millis(4_500)));
    both(Role::Inbox).into_iter().zip([0.5, 5.5]).map(pause).collect()
}

/// So long that the log has handed what they held to the others before they come back to an answer of before.
fn pauses_beyond_the_lease() -> Vec<Planned> {
    let pause = |role: &Role| planned(0.8, Strike::Pause(both(*role)[0], Duration::from_millis(6_500)));
    Role::WORKERS.iter().map(pause).collect()
}

fn deaths_before_settling() -> Vec<Planned> {
    let deaths = |name| planned(0.5, crash(name, CrashPoint::BeforeSettle, 3));
    [Role::Email, Role::Sms].into_iter().flat_map(|role| both(role).map(deaths)).collect()
}

fn deaths_after_freezing() -> Vec<Planned> {
    let deaths = |name| [2, 3].map(|passage| planned(0.5, crash(name, CrashPoint::AfterFreeze, passage)));
    both(Role::Dispatcher).into_iter().flat_map(deaths).collect()
}

/// And of the gateways while it is away, with all that they still mean to say to it.
fn deaths_of_the_broker() -> Vec<Planned> {
    let deaths = |at: f64| {
        let gateways = both(Role::Gateway).map(|name| planned(at + 0.6, Strike::Kill(name)));
        [planned(at, Strike::KillNats(Duration::from_millis(1_500)))].into_iter().chain(gateways)
    };
    [1.0, 4.5].into_iter().flat_map(deaths).collect()
}

/// A short run of a system in which everybody is this mutant.
async fn run(
    mutant: Option<Mutant>,
    mut strikes: Vec<Planned>,
    stalls: Option<f64>,
    rest_within: Duration,
) -> Outcome {
    strikes.sort_by_key(|planned| planned.at);
    let mut system = System::start(Settings { seed: SEED, mutant, apps: APPS, stalls }).await;
    let workload = Arc::new(Workload::prepare(&system.scene, Size::short(LASTING)).await);
    let (over, schedule) = (CancellationToken::new(), Schedule(strikes));
    let working = async {
        let observed = workload.run().await;
        over.cancel();
        observed
    };
    let (observed, struck) = tokio::join!(working, faults::strike(&mut system, &schedule, &over));
    let rest = quiet::at_rest(&mut system, rest_within).await;
    println!("at rest: {rest:?}");
    let record = record::gather(&system.scene, &workload, observed, struck.faults).await;
    let mut failures = check::failures(&record);
    failures.remove(TOO_SHORT_FOR);
    println!("{}", check::describe(&failures));
    Outcome { record, failures, rest }
}

async fn is_caught(mutant: Mutant) {
    let case = CASES.iter().find(|case| case.mutant == mutant).expect("every mutant has its run");
    let stalls = (mutant == Mutant::UntokenedSettle).then_some(STALLS);
    let rest_within = if matches!(case.trace, Trace::Forgotten(_)) { quiet::WITHIN } else { BRIEFLY };
    let outcome = run(Some(mutant), (case.strikes)(), stalls, rest_within).await;
    assert!(outcome.failures.contains_key(case.caught_by), "{} passes {:?}", mutant.as_str(), case.caught_by);
    assert!(outcome.shows(case.trace), "something else breaks {:?}; {:?}", case.caught_by, outcome.rest);
}

/// Under all of the mutants' faults.
async fn passes_without_a_mutant(stalls: Option<f64>) {
    let strikes = CASES.iter().flat_map(|case| (case.strikes)()).collect();
    let Outcome { failures, rest, .. } = run(None, strikes, stalls, quiet::WITHIN).await;
    assert!(rest.is_ok() && failures.is_empty(), "{rest:?}\n{}", check::describe(&failures));
}

macro_rules! each_is_caught {
    ($($test:ident: $mutant:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                is_caught(Mutant::$mutant).await;
            }
        )+

        #[test]
        fn every_mutant_has_its_run() {
            let with_run = [$(Mutant::$mutant),+];
            assert!(Mutant::ALL.iter().all(|mutant| with_run.contains(mutant)));
            assert!(Mutant::ALL.iter().all(|mutant| CASES.iter().any(|case| case.mutant == *mutant)));
        }
    };
}

each_is_caught! {
    a_checkpoint_without_its_fence_is_caught: UnfencedCheckpoint,
    an_ack_before_the_settlement_is_caught: AckBeforeSettle,
    random_delivery_ids_are_caught: RandomDeliveryIds,
    a_settlement_without_its_token_is_caught: UntokenedSettle,
    a_plan_that_is_not_frozen_is_caught: PlanNotFrozen,
    a_timer_under_an_old_id_is_caught: TimerUnderOldId,
    an_answer_before_the_ack_is_caught: AnswerBeforeAck,
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mutant_the_short_run_passes() {
    passes_without_a_mutant(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mutant_the_short_run_passes_also_where_providers_stall() {
    passes_without_a_mutant(Some(STALLS)).await;
}
