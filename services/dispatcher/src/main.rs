//! The dispatcher as its own process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_kit::service_main("tidings-dispatcher", dispatcher::run)
}
