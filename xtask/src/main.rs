//! `cargo xtask`: the project's own commands. They need only Rust on the machine, and find or install everything else.

mod bench;
mod bundles;
mod clients;
mod containers;
mod crash;
mod deploy;
mod docs;
mod figures;
#[path = "../../libs/local-servers/src/installed.rs"]
#[expect(unreachable_pub, reason = "a module of local-servers")]
mod installed;
mod interrupt;
mod mail_servers;
mod nightly;
mod node;
mod overload;
mod package;
mod prose;
mod provision;
mod python;
mod sql;
mod steps;
mod test;
mod up;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Examples:
  cargo xtask up                  try Tidings on this machine
  cargo xtask test                run every test
  cargo xtask test -p store       run the tests of one crate
  cargo xtask sql                 describe SQL statements for the compiler, after a change
  cargo xtask bench               run the benchmarks in a release build
  cargo xtask crash               kill every process, and check that nothing is lost
  cargo xtask upgrade             upgrade a database with deliveries in every state
  cargo xtask overload            offer ten times the load that the gateway accepts
  cargo xtask deploy-test         test what operators deploy
  cargo xtask nightly             run what is too slow for .ci/run
  cargo xtask figures             print figures about the code and its comments
  cargo xtask bundles             minify the browser clients, after a change
  cargo xtask clients             build npm packages of the browser clients
  cargo xtask docs                write the guides to a folder
  cargo xtask package             build the files of a release"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Arguments),
    Test(test::Arguments),
    Sql(sql::Arguments),
    Bench(bench::Arguments),
    Crash(crash::Arguments),
    Upgrade(upgrade::Arguments),
    Overload(overload::Arguments),
    DeployTest(deploy::Arguments),
    Nightly(nightly::Arguments),
    Figures(figures::Arguments),
    Bundles(bundles::Arguments),
    Clients(clients::Arguments),
    Docs(docs::Arguments),
    Package(package::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Up(arguments) => up::run(arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Sql(sql::Arguments {}) => sql::run(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Crash(arguments) => crash::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Overload(arguments) => overload::run(&arguments),
        Command::DeployTest(arguments) => deploy::run(&arguments),
        Command::Nightly(arguments) => nightly::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Bundles(arguments) => bundles::run(&arguments),
        Command::Clients(arguments) => clients::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Package(arguments) => package::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Directory for files that are not in the repository: the data of `up`, and downloaded tools.
fn private_directory() -> PathBuf {
    workspace().join(".tidings")
}
