//! `cargo xtask overload`: ten times as much as is taken, and a saturated bulk lane, in an optimised build.

use std::process::ExitCode;

use crate::{provision, steps};

/// Offer ten times as much as is taken, and saturate the bulk lane, in an optimised build.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask overload
  cargo xtask overload lanes --seconds 30")]
pub(crate) struct Arguments {
    /// Passed on to the test.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    passed_on: Vec<String>,
}

/// The exit code is that of the test: 1 where a promise is broken.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    provision::postgres("TIDINGS_TEST_DATABASE_URL")?;
    provision::nats_program()?;
    // By themselves, so that there are no crash points in them.
    steps::run(steps::cargo().args(["build", "--workspace", "--bins"]).args(steps::OPTIMIZED))?;
    let mut overload = steps::cargo();
    overload.args(["bench", "--workspace", "--bench", "overload"]).args(steps::OPTIMIZED);
    overload.arg("--").args(&arguments.passed_on);
    Ok(steps::exit_code(overload.status()?))
}
