use std::process::ExitCode;

use crate::{provision, steps};

/// Offer ten times the load that the gateway accepts, and saturate the bulk lane, in an optimised build.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask overload
  cargo xtask overload lanes --seconds 30")]
pub(crate) struct Arguments {
    /// Arguments for the test.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    passed_on: Vec<String>,
}

/// Returns exit code 1 if a guarantee is broken.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    provision::postgres("TIDINGS_TEST_DATABASE_URL")?;
    provision::nats_program()?;
    // Build separately from the test suite, so that the programs contain no crash points.
    steps::run(steps::cargo().args(["build", "--workspace", "--bins"]).args(steps::OPTIMIZED))?;
    let mut overload = steps::cargo();
    overload.args(["bench", "--workspace", "--bench", "overload"]).args(steps::OPTIMIZED);
    overload.arg("--").args(&arguments.passed_on);
    Ok(steps::exit_code(overload.status()?))
}
