//! The gateway as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_kit::service_main("tidings-gateway", gateway::run)
}
