//! The command-line tool of Tidings: runs it on one machine, installs it, and sets up apps, providers and templates.

mod app;
mod audit;
mod command;
mod comparing;
mod control_plane;
mod data_directory;
mod dev_file;
mod differences;
mod document;
mod master_key;
mod migrate;
mod parked;
#[cfg(feature = "development")]
mod private_file;
mod progress;
mod provider;
mod rebuild;
mod refused;
mod restore;
#[cfg(feature = "development")]
mod stand_ins;
mod suppression;
mod table;
mod template;
#[cfg(feature = "development")]
mod up;
mod verify;
mod webhook;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use service_kit::ConfigError;

use crate::command::Cli;
use crate::refused::Refused;

/// Done.
const DONE: u8 = 0;
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
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("tidings: {error:#}");
            let unusable = error.is::<Refused>() || error.is::<ConfigError>();
            ExitCode::from(if unusable { UNUSABLE } else { FAILED })
        }
    }
}
