use std::process::{Command, ExitCode};

use crate::{node, steps};

/// Minify the browser clients
///
/// Writes `clients/min`, whose files are part of the gateway. Run it after a change in `clients/client` or `clients/inbox`, and commit the
/// files. A test fails if they are out of date.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  cargo xtask bundles")]
pub(crate) struct Arguments;

pub(crate) fn run(_: &Arguments) -> anyhow::Result<ExitCode> {
    node::packages()?;
    let modules = steps::target_directory()?.join("node").join("node_modules");
    let clients = crate::workspace().join("clients");
    steps::run(Command::new("node").arg(clients.join("bundle.mjs")).arg(modules).arg(clients.join("min")))?;
    Ok(ExitCode::SUCCESS)
}
