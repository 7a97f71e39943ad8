//! The long form of the overload scenarios, in a release build. The exit code is 1 if transactional sends take too long to reach
//! the inbox while the bulk lane is saturated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attacks;
mod flood;
mod generator;
mod hostile;
mod lanes;
mod live;
mod scale;
mod system;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::scale::Scale;

/// Maximum latency of transactional sends, from the 202 to the inbox, at the 99th percentile.
const P99_LIMIT: Duration = Duration::from_millis(100);

/// Measures Tidings at ten times its rate limit, with a saturated bulk lane, with live connections, and under attack.
#[derive(Parser)]
struct Arguments {
    /// Scenario to run; all by default
    #[arg(value_enum)]
    only: Option<Part>,
    /// Duration of each scenario, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,
    /// Flag that cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Sends at ten times the rate limit
    Flood,
    /// Transactional sends while the bulk lane is saturated
    Lanes,
    /// Live connections while gateways and nats-server restart
    Live,
    /// Sends of one app during attacks by a caller without its secret
    Attacks,
    /// Memory of a gateway, and sends of another app, while every way in without a secret is attacked
    Hostile,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let scale = Scale {
        span: Duration::from_secs(arguments.seconds),
        rate_limit: 100,
        offered_per_second: 1_000,
        connections: 64,
        bulk_recipients: 500,
        transactional_per_second: 50,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let wanted = |part| arguments.only.is_none_or(|only| only == part);
    if wanted(Part::Flood) {
        println!("{}", runtime.block_on(flood::run(&scale)));
    }
    if wanted(Part::Live) {
        let scale = Scale { connections: 2_000, transactional_per_second: 200, ..scale };
        println!("{}", runtime.block_on(live::run(&scale)));
    }
    if wanted(Part::Attacks) {
        let scale = Scale { span: scale.span / 4, ..scale };
        println!("{}", runtime.block_on(attacks::run(&scale)));
    }
    if wanted(Part::Hostile) {
        println!("{}", runtime.block_on(hostile::run(scale.span / 2)));
    }
    if !wanted(Part::Lanes) {
        return ExitCode::SUCCESS;
    }
    let report = runtime.block_on(lanes::run(&scale));
    println!("{report}\nlimit of the p99: {P99_LIMIT:?}");
    if report.p99() <= P99_LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
