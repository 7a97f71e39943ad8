//! The command-line tool of Tidings: runs it on one machine, installs it, and sets up apps, providers and templates.

mod app;
mod command;
mod control_plane;
mod dev_file;
mod document;
mod migrate;
mod private_file;
mod provider;
mod refused;
mod stand_ins;
mod table;
mod template;
mod up;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use service_kit::ConfigError;

use crate::command::Cli;
use crate::refused::Refused;

/// Something failed; what was given may have been right.
const FAILED: u8 = 1;
/// What was given is not usable.
const UNUSABLE: u8 = 2;
/// For blocking calls that are still running at the end.
const RUNTIME_STOPPED_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        let result = runtime.block_on(cli.run());
        runtime.shutdown_timeout(RUNTIME_STOPPED_WITHIN);
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidings: {error:#}");
            let unusable = error.is::<Refused>() || error.is::<ConfigError>();
            ExitCode::from(if unusable { UNUSABLE } else { FAILED })
        }
    }
}
