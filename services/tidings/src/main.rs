//! The `tidings` program: the services, and the commands that install Tidings and set up apps, providers and templates.

mod admin_api;
mod app;
mod audit;
mod cancel;
mod command;
mod comparing;
mod control_plane;
mod data_directory;
#[cfg(feature = "development")]
mod demo;
mod dev_file;
mod differences;
mod document;
mod erase;
mod explain;
#[cfg(test)]
mod faces;
mod healthcheck;
mod listing;
mod master_key;
mod mcp;
mod migrate;
mod numbers;
mod operator;
mod options;
mod parked;
mod place;
mod print;
#[cfg(feature = "development")]
mod private_file;
mod processes;
mod progress;
mod provider;
mod rebuild;
mod refused;
mod refused_calls;
mod restore;
mod run;
mod sends;
mod services;
mod shell;
mod smoke;
#[cfg(feature = "development")]
mod stand_ins;
mod suppression;
mod template;
mod token;
#[cfg(feature = "development")]
mod up;
mod users;
mod verify;
mod version;
mod waiting;
mod webhook;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use service_kit::ConfigError;

use crate::command::{Cli, Tool};
use crate::refused::InvalidInput;
use crate::services::Service;

const DONE: u8 = 0;
/// The command failed although its input may be valid.
const FAILED: u8 = 1;
/// Invalid command line, configuration or document.
const UNUSABLE: u8 = 2;
/// Time for which a finished command waits for blocking calls before the process exits.
const RUNTIME_STOPPED_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    match Service::of_link(Path::new(&program)) {
        Some(service) => run::run_link(service),
        None => match Cli::try_parse() {
            Ok(cli) => cli.run(run_tool),
            Err(error) if command::refuses_console(&error) => {
                eprintln!("tidings: {}", place::NEEDS_DATABASE);
                ExitCode::from(UNUSABLE)
            }
            Err(error) => error.exit(),
        },
    }
}

fn run_tool(tool: Tool) -> ExitCode {
    let result = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        let result = runtime.block_on(tool.run());
        runtime.shutdown_timeout(RUNTIME_STOPPED_WITHIN);
        result
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let error = error.downcast().map_or_else(|error| error, refused::from_operation);
            eprintln!("tidings: {}", print::printable(&format!("{error:#}")));
            let unusable = error.is::<InvalidInput>() || error.is::<ConfigError>();
            ExitCode::from(if unusable { UNUSABLE } else { FAILED })
        }
    }
}
