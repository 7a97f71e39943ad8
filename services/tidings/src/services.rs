use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use service_kit::service_main;

use crate::provider::kinds;
use crate::version::BUILD;

/// A service. Each service runs as its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// The API over HTTP
    Gateway,
    /// Plans accepted sends
    Dispatcher,
    /// Writes inboxes
    Inbox,
    /// Delivers by email
    Email,
    /// Delivers to browsers
    WebPush,
    /// Delivers to phones
    MobilePush,
    /// Delivers by SMS
    Sms,
    /// Reports outcomes to the backends of apps
    Webhooks,
    /// Pages for operators
    Console,
}

impl Service {
    pub(crate) fn of_link(program: &Path) -> Option<Service> {
        let name = program.file_name()?.to_str()?.strip_prefix("tidings-")?;
        Service::from_str(name, false).ok()
    }

    pub(crate) fn run(self, config: Option<&Path>) -> ExitCode {
        match self {
            Service::Gateway => service_main("tidings-gateway", BUILD, config, gateway::run),
            Service::Dispatcher => service_main("tidings-dispatcher", BUILD, config, dispatcher::run),
            Service::Inbox => service_main("tidings-inbox", BUILD, config, inbox::run),
            Service::Email => service_main("tidings-email", BUILD, config, email::run),
            Service::WebPush => service_main("tidings-web-push", BUILD, config, web_push::run),
            Service::MobilePush => service_main("tidings-mobile-push", BUILD, config, mobile_push::run),
            Service::Sms => service_main("tidings-sms", BUILD, config, sms::run),
            Service::Webhooks => service_main("tidings-webhooks", BUILD, config, webhooks::run),
            Service::Console => {
                let run = |context| console::run(context, kinds::known());
                service_main("tidings-console", BUILD, config, run)
            }
        }
    }
}
