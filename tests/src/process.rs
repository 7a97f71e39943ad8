//! The service processes of a system.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use local_servers::port;
use reqwest::Client;
use testkit::{Service, eventually};

use crate::command::Environment;

/// Time limit for an orderly stop of a service.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for an answer from a health endpoint, so that a paused process does not block the test.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// The service that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Gateway,
    Dispatcher,
    Email,
    WebPush,
    MobilePush,
    Sms,
    Inbox,
    Webhooks,
}

impl Role {
    pub const ALL: [Role; 8] = [
        Role::Gateway,
        Role::Dispatcher,
        Role::Email,
        Role::WebPush,
        Role::MobilePush,
        Role::Sms,
        Role::Inbox,
        Role::Webhooks,
    ];
    pub const WORKERS: [Role; 4] = [Role::Email, Role::WebPush, Role::MobilePush, Role::Sms];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Gateway => "gateway",
            Role::Dispatcher => "dispatcher",
            Role::Email => "email",
            Role::WebPush => "web-push",
            Role::MobilePush => "mobile-push",
            Role::Sms => "sms",
            Role::Inbox => "inbox",
            Role::Webhooks => "webhooks",
        }
    }

    /// Name of the program.
    pub fn program(self) -> String {
        format!("tidings-{}", self.as_str())
    }
}

/// Name of a process, such as `email-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub role: Role,
    /// Number of the process within its role, from 1.
    pub number: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.role.as_str(), self.number)
    }
}

/// A service process, which can be restarted.
#[derive(Debug)]
pub struct Process {
    pub name: Name,
    pub service: Service,
    /// Origin (scheme, host and port) of the metrics and health endpoints.
    origin: String,
    /// Highest peak memory of all runs of the process so far, in bytes.
    most_memory: u64,
}

impl Process {
    /// Starts the service. It writes its log to the file `log` or, if `log` is None, to a temporary file that is removed when
    /// the process is dropped.
    pub fn start(name: Name, environment: &Environment, log: Option<&Path>) -> Process {
        let metrics = format!("127.0.0.1:{}", port::free().unwrap());
        let environment = environment.with([("TIDINGS_METRICS__LISTEN", &metrics)]);
        let (program, variables) = (environment.program(&name.role.program()), environment.pairs());
        let service = match log {
            Some(log) => Service::start_logged(&program, &[], &variables, log),
            None => Service::start_program(&program, &[], &variables),
        };
        Process { name, service: service.unwrap(), origin: format!("http://{metrics}"), most_memory: 0 }
    }

    /// Returns true if the service reports that it is ready.
    pub async fn is_ready(&self, client: &Client) -> bool {
        let call = client.get(format!("{}/readyz", self.origin)).timeout(ANSWERED_WITHIN);
        call.send().await.is_ok_and(|answer| answer.status().is_success())
    }

    /// Waits until the service is ready.
    ///
    /// # Panics
    /// The process ends, or the service is not ready within 60 s.
    pub async fn ready(&mut self, client: &Client) {
        let what = format!("{} is ready", self.name);
        eventually(READY_WITHIN, &what, async || {
            self.assert_running();
            self.is_ready(client).await.then_some(())
        })
        .await;
    }

    /// Returns true if the service exposes exactly this line of metrics.
    pub async fn has_metric(&self, client: &Client, line: &str) -> bool {
        let Ok(answer) = client.get(format!("{}/metrics", self.origin)).send().await else { return false };
        answer.text().await.unwrap().lines().any(|other| other == line)
    }

    /// Returns the exit status, or None while the process runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.service.ended().unwrap()
    }

    /// # Panics
    /// The process has ended.
    pub fn assert_running(&mut self) {
        let (ended, name) = (self.ended(), self.name);
        assert!(ended.is_none(), "{name} ended unexpectedly ({ended:?}); {}", self.service.last_words());
    }

    /// Waits until the process ends; it must have received SIGTERM before.
    ///
    /// # Panics
    /// The process runs for longer than 30 s.
    pub async fn stopped(&mut self) -> ExitStatus {
        let what = format!("{} stops", self.name);
        eventually(STOPPED_WITHIN, &what, async || self.ended()).await
    }

    /// Stops the service with SIGTERM, starts it again, and waits until it is ready.
    ///
    /// # Panics
    /// The service does not stop with exit code 0, or is not ready in time.
    pub async fn restart_orderly(&mut self, client: &Client) {
        self.stop_orderly().await;
        self.service.restart().unwrap();
        self.ready(client).await;
    }

    /// Stops the service with SIGTERM.
    ///
    /// # Panics
    /// The service does not stop with exit code 0 in time.
    pub async fn stop_orderly(&mut self) {
        self.service.terminate().unwrap();
        let ended = self.stopped().await;
        assert!(ended.success(), "{}: {ended}; {}", self.name, self.service.last_words());
    }

    /// Kills the process with SIGKILL if it runs, and starts it again with these additional environment variables. Later restarts
    /// do not use them.
    pub fn restart(&mut self, environment: &[(&str, &str)]) {
        self.note_memory();
        self.service.restart_with(environment).unwrap();
    }

    /// Returns the highest peak memory of all runs of the process so far, in bytes.
    pub fn most_memory(&mut self) -> u64 {
        self.note_memory();
        self.most_memory
    }

    /// Reads the peak memory of the current process from the line `VmHWM: 12345 kB` (proc(5)). The line is missing if the
    /// process has ended or the system is not Linux.
    fn note_memory(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.service.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
        self.most_memory = self.most_memory.max(kibibytes.unwrap_or_default() * 1024);
    }
}
