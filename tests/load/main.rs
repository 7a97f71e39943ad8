//! Benchmarks of throughput: accepted sends, planned recipients, projected inbox events, deliveries, large emails and webhooks per second, and the
//! cost of live connections and of viewers of the console, and the time from acceptance to arrival. Each rate is compared with a bare implementation in the same run.
//!
//! Compare runs only by these ratios, and by rates and times only within a run, because the speed of a machine changes over time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accept;
mod arrivals;
mod bare_insert;
mod bare_server;
mod bare_stream;
mod cells;
mod connections;
mod deliver;
mod harness;
mod inbox_events;
mod installation;
mod latency;
mod live;
mod machine;
mod old_sends;
mod pinned;
mod plan;
mod project;
mod rates;
mod report;
mod role;
mod series;
mod viewers;
mod webhooks;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use service_kit::{Build, Context, service_main};

use crate::installation::Installation;
use crate::report::Report;
use crate::role::Role;

/// Measures sends accepted, recipients planned, inbox events projected, deliveries made and webhooks sent per second, the cost of
/// live connections and of viewers of the console, and the time from acceptance to arrival.
#[derive(Parser)]
#[command(
    after_help = "`harness` runs load in the shape of another project; `harness --help` lists its options."
)]
struct Arguments {
    /// Measurement to make; all by default
    #[arg(value_enum)]
    only: Option<Measurement>,
    /// Number of rounds; each round makes every selected measurement once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds for each measurement of accepted sends
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Recipients for each measurement of the dispatcher
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(5_000..=2_000_000))]
    recipients: u32,
    /// Inbox items for each measurement of the projection
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10_000..))]
    items: u32,
    /// Deliveries for each measurement of a channel
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(5_000..=100_000))]
    deliveries: u32,
    /// Large emails for each measurement of them
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(100..=20_000))]
    emails: u32,
    /// Ended sends, with one delivery each, that are in the tables during the measurements, except cells
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=2_000_000))]
    old_deliveries: u32,
    /// Webhooks for each measurement of the webhook service
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000))]
    webhooks: u32,
    /// Additional webhooks in the queue during the second measurement of the webhook service
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100_000..=2_000_000))]
    backlog: u32,
    /// Live connections of the gateway. A connection needs two file descriptors of the gateway
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    connections: u32,
    /// Minutes for which a transaction stays open in the measurement `pinned`
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    minutes: u32,
    /// Sends per second in the measurement `pinned`
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=5_000))]
    per_second: u32,
    /// Append the results to this file, as one line of JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Flag that cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measurement {
    Accept,
    Plan,
    Project,
    Deliver,
    Mail,
    Webhooks,
    Live,
    Latency,
    Rates,
    Viewers,
    Cells,
    /// Made only if it is named
    Pinned,
}

fn main() -> ExitCode {
    match Role::of_this_process() {
        Some(Role::Gateway) => service("tidings-gateway", gateway::run),
        Some(Role::Dispatcher) => service("tidings-dispatcher", dispatcher::run),
        Some(Role::Inbox) => service("tidings-inbox", inbox::run),
        Some(Role::Email) => service("tidings-email", email::run),
        Some(Role::WebPush) => service("tidings-web-push", web_push::run),
        Some(Role::MobilePush) => service("tidings-mobile-push", mobile_push::run),
        Some(Role::Sms) => service("tidings-sms", sms::run),
        Some(Role::Webhooks) => service("tidings-webhooks", ::webhooks::run),
        Some(Role::Console) => service("tidings-console", |context| ::console::run(context, &[])),
        Some(Role::BareServer) => bare_server::main(),
        Some(Role::BareStream) => bare_stream::main(),
        None => {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            // The harness has its own options.
            let mut words = std::env::args();
            if words.nth(1).is_some_and(|word| word == "harness") {
                let options =
                    harness::Options::parse_from(std::iter::once("harness".to_owned()).chain(words));
                return runtime.block_on(harness::measure(&options));
            }
            let arguments = Arguments::parse();
            runtime.block_on(measure(&arguments));
            ExitCode::SUCCESS
        }
    }
}

/// Runs a service in this process, as `tidings run` does.
fn service<F, Fut>(name: &'static str, run: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    service_main(name, Build { version: env!("CARGO_PKG_VERSION"), revision: "bench" }, None, run)
}

async fn measure(arguments: &Arguments) {
    let old = arguments.old_deliveries;
    let installation = Installation::start(old).await;
    let wanted = |what| arguments.only.is_none_or(|only| only == what);
    let mut report = Report::new();
    if wanted(Measurement::Accept) {
        let span = Duration::from_secs(arguments.seconds);
        report.accept = accept::measure(&installation, arguments.rounds, span).await;
    }
    if wanted(Measurement::Plan) {
        report.plan = plan::measure(&installation, arguments.rounds, arguments.recipients).await;
    }
    if wanted(Measurement::Project) {
        report.project = project::measure(&installation, arguments.rounds, arguments.items).await;
    }
    if wanted(Measurement::Deliver) {
        let deliveries = arguments.deliveries as usize;
        report.deliver = deliver::measure(&installation, arguments.rounds, deliveries).await;
    }
    if wanted(Measurement::Mail) {
        let emails = arguments.emails as usize;
        report.mail = deliver::mail::measure(&installation, arguments.rounds, emails).await;
    }
    if wanted(Measurement::Webhooks) {
        let webhooks = arguments.webhooks as usize;
        report.webhooks =
            webhooks::measure(&installation, arguments.rounds, webhooks, arguments.backlog).await;
    }
    if wanted(Measurement::Live) {
        let connections = arguments.connections as usize;
        report.live = Some(live::measure(&installation, arguments.rounds, connections).await);
    }
    if wanted(Measurement::Latency) {
        report.latency = Some(latency::measure(arguments.rounds, old).await);
    }
    if wanted(Measurement::Rates) {
        report.rates = rates::measure(arguments.rounds, old).await;
    }
    if wanted(Measurement::Viewers) {
        report.viewers = Some(viewers::measure(arguments.rounds, old).await);
    }
    if wanted(Measurement::Cells) {
        report.cells = Some(cells::measure(arguments.rounds, arguments.recipients / 5).await);
    }
    if arguments.only == Some(Measurement::Pinned) {
        report.pinned = Some(pinned::measure(arguments.minutes, arguments.per_second).await);
    }
    println!("{report}");
    if let Some(path) = &arguments.json {
        report.append_to(path).unwrap();
    }
    if let Some(pinned) = &report.pinned {
        pinned.check();
    }
}
