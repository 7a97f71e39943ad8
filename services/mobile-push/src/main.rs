//! The mobile push worker as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_kit::service_main("tidings-mobile-push", mobile_push::run)
}
