use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

#[cfg(feature = "containers")]
use crate::container::{self, NatsContainer};
use crate::directory::Directory;
use crate::installed;
use crate::process::{Process, Start};

const OTHER_PROGRAM: &str = "TIDINGS_TEST_NATS_SERVER";

#[derive(Clone, Debug)]
pub(crate) enum Program {
    File(PathBuf),
    #[cfg(feature = "containers")]
    Image,
}

/// A server that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) enum Server {
    Process(Process),
    #[cfg(feature = "containers")]
    Container(Box<NatsContainer>),
}

impl Program {
    pub(crate) fn of_tests() -> anyhow::Result<Self> {
        #[cfg(feature = "containers")]
        if container::is_asked_for() {
            return Ok(Program::Image);
        }
        file().map(Program::File)
    }

    pub(crate) async fn start(
        &self,
        directory: &Directory,
        arguments: Vec<String>,
    ) -> anyhow::Result<Server> {
        match self {
            Program::File(program) => {
                let mut start = Start::new(program, directory.path().join("nats-server.log"));
                start.arguments = arguments;
                start.directory = Some(directory.descriptor());
                Process::start(&start).map(Server::Process)
            }
            #[cfg(feature = "containers")]
            Program::Image => {
                let container = NatsContainer::start(directory.path(), &arguments).await?;
                Ok(Server::Container(Box::new(container)))
            }
        }
    }
}

pub(crate) fn file() -> anyhow::Result<PathBuf> {
    std::env::var_os(OTHER_PROGRAM).map_or_else(installed::nats_server, |path| Ok(path.into()))
}

impl Server {
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        match self {
            Server::Process(process) => Ok(process.ended()?.is_some()),
            #[cfg(feature = "containers")]
            Server::Container(container) => Ok(container.has_ended()),
        }
    }

    pub(crate) fn log(&self) -> &Path {
        match self {
            Server::Process(process) => process.log(),
            #[cfg(feature = "containers")]
            Server::Container(container) => container.log(),
        }
    }

    pub(crate) fn last_words(&self) -> String {
        match self {
            Server::Process(process) => process.last_words(),
            #[cfg(feature = "containers")]
            Server::Container(container) => format!("see its log, {}", container.log().display()),
        }
    }

    pub(crate) fn kill(&mut self) {
        match self {
            Server::Process(process) => process.kill(),
            #[cfg(feature = "containers")]
            Server::Container(container) => container.kill(),
        }
    }

    pub(crate) fn pause(&mut self) -> anyhow::Result<()> {
        match self {
            Server::Process(process) => process.pause(),
            #[cfg(feature = "containers")]
            Server::Container(container) => container.signal(Signal::STOP),
        }
    }

    pub(crate) fn resume(&mut self) -> anyhow::Result<()> {
        match self {
            Server::Process(process) => process.resume(),
            #[cfg(feature = "containers")]
            Server::Container(container) => container.signal(Signal::CONT),
        }
    }

    /// Returns true if the server ended without a kill.
    pub(crate) async fn stop(self, limit: Duration) -> anyhow::Result<bool> {
        match self {
            Server::Process(process) => process.stop(Signal::TERM, limit).await,
            #[cfg(feature = "containers")]
            Server::Container(container) => container.stop(limit).await,
        }
    }
}
