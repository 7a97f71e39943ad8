//! Status webhooks as a process of their own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_kit::service_main("tidings-webhooks", webhooks::run)
}
