//! Services of the short form, which are the built programs.

use testkit::Service;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Gateway,
    Dispatcher,
    Inbox,
    Email,
    Webhooks,
}

impl Role {
    /// Starts the service.
    pub(crate) fn start(self, environment: &[(&str, &str)]) -> Service {
        let name = match self {
            Role::Gateway => "tidings-gateway",
            Role::Dispatcher => "tidings-dispatcher",
            Role::Inbox => "tidings-inbox",
            Role::Email => "tidings-email",
            Role::Webhooks => "tidings-webhooks",
        };
        Service::start(name, &[], environment).unwrap()
    }
}
