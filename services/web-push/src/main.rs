//! The web push worker as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_kit::service_main("tidings-web-push", web_push::run)
}
