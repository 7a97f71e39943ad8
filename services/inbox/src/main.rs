//! The inbox projection as its own process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_kit::service_main("tidings-inbox", inbox::run)
}
