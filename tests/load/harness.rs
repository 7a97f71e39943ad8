//! Load in the shape of the harness of hardbyte/postgresql-job-queue-benchmarking: phases of offered jobs, under pressure and faults,
//! and a phase with a backlog of constant depth. A job is one email to a provider that takes a millisecond. The page
//! `docs/benchmarks-harness.md` says what differs.

mod backlog;
mod judgement;
mod meter;
mod options;
mod phase;
mod pressure;
mod producer;
mod report;
mod results;
mod samples;
mod site;

use std::process::ExitCode;
use std::time::Duration;

use domain::Timestamp;
use service_kit::clock;
use tokio::time::Instant;

pub(crate) use options::Options;
pub(crate) use phase::Kind;
use phase::{Load, Phase};
use producer::{Offers, Producer};
pub(crate) use report::HarnessReport;
use samples::Samples;
use site::Site;

/// Limit for the end of all accepted jobs after a fault.
const EMPTY_WITHIN: Duration = Duration::from_secs(180);

/// A phase that has ended, as the test saw it. The tables say what became of its jobs.
struct Observed {
    kind: Kind,
    begin: Timestamp,
    end: Timestamp,
    samples: Samples,
    offers: Offers,
    /// Faults of the phase that had an effect. None if the phase has no faults that are counted.
    faults: Option<u64>,
    /// Processor time of services, nats-server and PostgreSQL in microseconds.
    micros: [u64; 3],
    /// Time from the end of the phase until no accepted job was left. None if the next phase began at once, or jobs were left after
    /// [`EMPTY_WITHIN`].
    emptied: Option<Duration>,
}

/// Runs all phases and reports them. Returns an error code if the report lists problems.
pub(crate) async fn measure(options: &Options) -> ExitCode {
    let report = run(options).await;
    println!("{report}");
    if let Some(path) = &options.json {
        report.append_to(path).unwrap();
    }
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all phases on an installation that it starts, and then reads from the tables what became of each job.
pub(crate) async fn run(options: &Options) -> HarnessReport {
    let mut site = Site::start(options).await;
    let producer = Producer::new(&site, options);
    let mut observed = Vec::new();
    for phase in options.phases() {
        eprintln!("{}: {} s", phase.kind.name(), phase.length.as_secs());
        observed.push(observe(&mut site, &producer, phase, options).await);
    }
    site.is_empty(&producer, EMPTY_WITHIN).await;
    let phases = results::of(&site, &producer, &observed, options).await;
    HarnessReport::new(options, &site, &producer, phases).await
}

async fn observe(site: &mut Site, producer: &Producer, phase: Phase, options: &Options) -> Observed {
    let Phase { kind, length } = phase;
    let load = match kind.load() {
        Load::Rate(share) => Load::Rate(f64::from(options.rate) * share),
        Load::Depth(_) => Load::Depth(options.depth),
    };
    let (meter, url) = (site.meter.clone(), site.installation.database_url().to_owned());
    let (begin, used) = (clock::now(), meter.used());
    let began = Instant::now();
    let until = began + length;
    let sampling = samples::collect(began, until, options.sample(), &url, producer, &meter);
    let producing = producer.produce(load, kind.bulk_share(), began, until);
    let (samples, offers, faults) =
        tokio::join!(sampling, producing, pressure::apply(site, kind, length, options));
    let (end, after) = (clock::now(), meter.used());
    let micros = std::array::from_fn(|place| after[place] - used[place]);
    let emptied = if kind.is_emptied() { site.is_empty(producer, EMPTY_WITHIN).await } else { None };
    Observed { kind, begin, end, samples, offers, faults, micros, emptied }
}
