//! PostgreSQL and nats-server in containers, for tests with `TIDINGS_TEST_SERVERS=docker`.
//!
//! nats-server shares the network and process ids of this machine, so tests can connect to it, stop it and kill it like a child process.
//! This needs Linux and a Docker engine on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getgid, getuid, pidfd_open, pidfd_send_signal};
use testcontainers::core::{IntoContainerPort, Mount, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};

use crate::password;
use crate::waiting::within;

const NATS: &str = "nats:2.12-alpine";
const POSTGRES: &str = "postgres:17-alpine";
/// Time limit that includes the download of the image.
const STARTED_WITHIN: Duration = Duration::from_secs(300);
const PROCESS_WITHIN: Duration = Duration::from_secs(30);
const GONE_WITHIN: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Label of containers that a killed test may leave behind.
const LABEL: (&str, &str) = ("com.tidings.tests", "server");

pub(crate) fn is_asked_for() -> bool {
    std::env::var("TIDINGS_TEST_SERVERS").is_ok_and(|servers| servers == "docker")
}

fn image(named: &str) -> GenericImage {
    let (name, tag) = named.split_once(':').unwrap_or((named, "latest"));
    GenericImage::new(name, tag)
}

/// Dropping this value removes the container, but the streams stay in a directory of this machine.
#[derive(Debug)]
pub(crate) struct NatsContainer {
    _container: ContainerAsync<GenericImage>,
    program: OwnedFd,
    log: PathBuf,
}

impl NatsContainer {
    pub(crate) async fn start(directory: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let (log, pid) = (directory.join("nats-server.log"), directory.join("nats-server.pid"));
        std::fs::remove_file(&pid).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let here = |path: &Path| {
            let path = path.display().to_string();
            Mount::bind_mount(path.clone(), path)
        };
        let own = [format!("--log={}", log.display()), format!("--pid={}", pid.display())];
        let command = std::iter::once("nats-server".to_owned()).chain(arguments.iter().cloned()).chain(own);
        let request = image(NATS)
            .with_cmd(command)
            .with_network("host")
            .with_user(format!("{}:{}", getuid().as_raw(), getgid().as_raw()))
            .with_label(LABEL.0, LABEL.1)
            // Mount the directory for temporary files too, because the configuration may name certificates in it.
            .with_mount(here(&std::env::temp_dir()))
            .with_mount(here(directory))
            .with_host_config_modifier(|host| host.pid_mode = Some("host".to_owned()))
            .with_startup_timeout(STARTED_WITHIN);
        let container = request.start().await.context("cannot start nats-server in a container")?;
        let found = within(PROCESS_WITHIN, async || {
            std::fs::read_to_string(&pid).ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?))
        });
        let program = found.await.with_context(|| format!("no process id within {PROCESS_WITHIN:?}"))?;
        let program = pidfd_open(program, PidfdFlags::empty())?;
        Ok(Self { _container: container, program, log })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(Timespec::default())
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match pidfd_send_signal(&self.program, signal) {
            Err(Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    pub(crate) fn kill(&self) {
        // An error means that the program has already ended.
        self.signal(Signal::KILL).ok();
        self.ends_within(GONE_WITHIN);
    }

    fn ends_within(&self, limit: Timespec) -> bool {
        poll(&mut [PollFd::new(&self.program, PollFlags::IN)], Some(&limit)).is_ok_and(|ended| ended == 1)
    }

    /// Returns true if the program ended without a kill.
    pub(crate) async fn stop(self, limit: Duration) -> anyhow::Result<bool> {
        self.signal(Signal::TERM)?;
        let gone = within(limit, async || self.has_ended().then_some(())).await.is_some();
        if !gone {
            self.kill();
        }
        Ok(gone)
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

/// PostgreSQL without fsync, shared by all tests of a run.
#[derive(Debug)]
pub struct PostgresContainer {
    _container: ContainerAsync<GenericImage>,
    url: String,
}

impl PostgresContainer {
    /// Starts PostgreSQL, and waits until it accepts connections.
    pub async fn start() -> anyhow::Result<Self> {
        let password = password::new()?;
        let settings =
            ["max_connections=300", "fsync=off", "full_page_writes=off", "password_encryption=md5"];
        let command = settings.into_iter().flat_map(|setting| ["-c", setting]);
        // The image logs this line twice: first for the temporary server that creates the database, then for the final server.
        let ready = || WaitFor::message_on_stderr("database system is ready to accept connections");
        let request = image(POSTGRES)
            .with_exposed_port(5432.tcp())
            .with_wait_for(ready())
            .with_wait_for(ready())
            .with_cmd(std::iter::once("postgres").chain(command))
            .with_env_var("POSTGRES_USER", "tidings")
            .with_env_var("POSTGRES_PASSWORD", &password)
            .with_env_var("POSTGRES_HOST_AUTH_METHOD", "md5")
            .with_shm_size(256 << 20)
            .with_label(LABEL.0, LABEL.1)
            .with_startup_timeout(STARTED_WITHIN);
        let container = request.start().await.context("cannot start PostgreSQL in a container")?;
        let (host, port) = (container.get_host().await?, container.get_host_port_ipv4(5432).await?);
        let url = format!("postgres://tidings:{password}@{host}:{port}/tidings");
        Ok(Self { _container: container, url })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}
