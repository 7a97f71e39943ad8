//! Roles of the benchmark's processes. The benchmark starts its own program again for every service that it measures, so that
//! each service runs in a separate process, with the same code as in production.

use std::path::Path;

use testkit::Service;

const VARIABLE: &str = "LOAD_ROLE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Gateway,
    Dispatcher,
    Inbox,
    Email,
    WebPush,
    MobilePush,
    Sms,
    Webhooks,
    Console,
    /// The bare server: accepts over HTTP, and waits for the log's confirmation.
    BareServer,
    /// The bare server of live connections.
    BareStream,
}

impl Role {
    const ALL: [Role; 11] = [
        Role::Gateway,
        Role::Dispatcher,
        Role::Inbox,
        Role::Email,
        Role::WebPush,
        Role::MobilePush,
        Role::Sms,
        Role::Webhooks,
        Role::Console,
        Role::BareServer,
        Role::BareStream,
    ];

    /// Role of this process; None for the process that measures.
    pub(crate) fn of_this_process() -> Option<Role> {
        let name = std::env::var(VARIABLE).ok()?;
        Some(Role::ALL.into_iter().find(|role| role.name() == name).expect("the variable names a role"))
    }

    /// Starts a child process with this role.
    pub(crate) fn start(self, environment: &[(&str, &str)]) -> Service {
        let mut variables = vec![(VARIABLE, self.name())];
        variables.extend(environment);
        let program = std::env::current_exe().unwrap();
        Service::start_program(Path::new(&program), &[], &variables).unwrap()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Gateway => "gateway",
            Role::Dispatcher => "dispatcher",
            Role::Inbox => "inbox",
            Role::Email => "email",
            Role::WebPush => "web-push",
            Role::MobilePush => "mobile-push",
            Role::Sms => "sms",
            Role::Webhooks => "webhooks",
            Role::Console => "console",
            Role::BareServer => "bare-server",
            Role::BareStream => "bare-stream",
        }
    }
}
