use std::process::ExitCode;

use crate::{provision, steps};

/// Run the benchmarks, in a release build and in a separate process.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench
  cargo xtask bench --help
  cargo xtask bench harness --help")]
pub(crate) struct Arguments {
    /// Arguments for the benchmark.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    passed_on: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    provision::postgres("TIDINGS_TEST_DATABASE_URL")?;
    provision::nats_program()?;
    let mut bench = steps::cargo();
    bench.args(["bench", "--package", "suite", "--bench", "load", "--"]).args(&arguments.passed_on);
    Ok(steps::exit_code(bench.status()?))
}
