//! How fast sends are accepted and inbox events projected, each beside the bare limit in the same run.
//!
//! Speeds of different runs cannot be compared, since machines drift; the ratios can.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod accept;
mod bare_insert;
mod bare_server;
mod connections;
mod cpu;
mod inbox_events;
mod installation;
mod project;
mod report;
mod role;
mod series;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::installation::Installation;
use crate::report::Report;
use crate::role::Role;

/// Measures how fast sends are accepted and inbox events projected.
#[derive(Parser)]
struct Arguments {
    /// What to measure; everything, unless told.
    #[arg(value_enum)]
    only: Option<Measured>,
    /// Rounds, in each of which everything is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long one measurement of accepting takes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Inbox items of one measurement of projecting.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10_000..))]
    items: u32,
    /// Append the results to this file, as one line of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What cargo passes to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measured {
    Accept,
    Project,
}

fn main() -> ExitCode {
    match Role::of_this_process() {
        Some(Role::Gateway) => service_kit::service_main("tidings-gateway", gateway::run),
        Some(Role::Inbox) => service_kit::service_main("tidings-inbox", inbox::run),
        Some(Role::BareServer) => bare_server::main(),
        None => {
            let arguments = Arguments::parse();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(measure(&arguments));
            ExitCode::SUCCESS
        }
    }
}

async fn measure(arguments: &Arguments) {
    let installation = Installation::start().await;
    let (mut accept, mut project) = (Vec::new(), Vec::new());
    if arguments.only != Some(Measured::Project) {
        let span = Duration::from_secs(arguments.seconds);
        accept = accept::measure(&installation, arguments.rounds, span).await;
    }
    if arguments.only != Some(Measured::Accept) {
        project = project::measure(&installation, arguments.rounds, arguments.items).await;
    }
    let report = Report::new(accept, project);
    println!("{report}");
    if let Some(path) = &arguments.json {
        report.append_to(path).unwrap();
    }
}
