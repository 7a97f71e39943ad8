//! A private nats-server with JetStream.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

use crate::directory::Directory;
use crate::nats_program::{self, Program, Server};
use crate::waiting::within;
use crate::{installed, password, port};

const USER: &str = "tidings";
const SETTINGS: &str = "nats-server.conf";
/// It listens only after it has recovered its streams, which takes long for large ones.
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// Races for a port that are lost before giving up.
const PORT_TRIES: u32 = 5;

/// A running nats-server on 127.0.0.1. Dropping it kills it, as does the end of our process, however that comes; what
/// it stored survives both, unless the directory was a temporary one.
#[derive(Debug)]
pub struct NatsServer {
    program: Program,
    directory: Directory,
    port: u16,
    url: String,
    server: Server,
    _files: Option<TempDir>,
}

impl NatsServer {
    /// A server for one test, with empty storage that goes with it. `TIDINGS_TEST_NATS_SERVER` names another program.
    pub async fn start() -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tidings-nats-").tempdir()?;
        let server = Self::start_at(files.path()).await?;
        Ok(Self { _files: Some(files), ..server })
    }

    /// As [`start`](Self::start), with its storage and its log in `directory`, which the caller removes.
    pub async fn start_at(directory: &Path) -> anyhow::Result<Self> {
        Self::start_program(Program::of_tests()?, Directory::claim(directory).await?, "", None).await
    }

    /// As [`start`](Self::start), with these lines in its configuration file.
    pub async fn start_with(settings: &str) -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tidings-nats-").tempdir()?;
        let directory = Directory::claim(files.path()).await?;
        let server = Self::start_program(Program::of_tests()?, directory, settings, None).await?;
        Ok(Self { _files: Some(files), ..server })
    }

    /// The nats-server program of this machine that tests run on.
    pub fn program() -> anyhow::Result<PathBuf> {
        nats_program::file()
    }

    /// The server whose streams are in `directory`, which is created if need be, open to clients with the password
    /// that is kept there. Fails when another instance runs on the directory.
    pub async fn start_in(directory: &Path) -> anyhow::Result<Self> {
        let directory = Directory::claim(directory).await?;
        let password = password::kept_in(&directory.path().join("password"))?;
        // In a file, because every account can read a command line.
        let settings = format!("authorization {{ user: {USER}, password: \"{password}\" }}\n");
        Self::start_program(Program::File(installed::nats_server()?), directory, &settings, Some(&password))
            .await
    }

    async fn start_program(
        program: Program,
        directory: Directory,
        settings: &str,
        password: Option<&str>,
    ) -> anyhow::Result<Self> {
        password::write(&directory.path().join(SETTINGS), settings)?;
        let mut tries = 1;
        let (port, server) = loop {
            let port = port::free()?;
            match launch(&program, &directory, port).await {
                Ok(server) => break (port, server),
                // Lost a race for the port: another process listens there now.
                Err(_) if tries < PORT_TRIES && !port::is_free(port) => tries += 1,
                Err(error) => return Err(error),
            }
        };
        let login = password.map_or_else(String::new, |password| format!("{USER}:{password}@"));
        let url = format!("nats://{login}127.0.0.1:{port}");
        Ok(Self { program, directory, port, url, server, _files: None })
    }

    /// `nats://127.0.0.1:…`, with user and password where it asks for them.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true unless the server has ended by itself.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(!self.server.has_ended()?)
    }

    /// The file that its output goes to.
    pub fn log(&self) -> &Path {
        self.server.log()
    }

    /// SIGKILL. [`restart`](Self::restart) brings it back.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// SIGSTOP: connections stay open and nothing answers, until [`resume`](Self::resume).
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.server.pause()
    }

    /// SIGCONT, after [`pause`](Self::pause).
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.server.resume()
    }

    /// Kills it if it runs, and starts it again on the same port over the same storage.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.server.kill();
        self.directory.reclaim().await?;
        self.server = launch(&self.program, &self.directory, self.port).await?;
        Ok(())
    }

    /// Writes what it has and stops. Kills it when that takes longer than 30 s.
    pub async fn stop(self) -> anyhow::Result<()> {
        let log = self.server.log().to_owned();
        let clean = self.server.stop(STOPPED_WITHIN).await?;
        ensure!(
            clean,
            "nats-server did not stop within {STOPPED_WITHIN:?} and was killed; see {}",
            log.display()
        );
        Ok(())
    }
}

async fn launch(program: &Program, directory: &Directory, port: u16) -> anyhow::Result<Server> {
    // Another server that won the race for the port must not be taken for ours.
    let name = format!("tidings-{:016x}", RandomState::new().hash_one(port));
    let arguments = vec![
        format!("--config={}", directory.path().join(SETTINGS).display()),
        "--addr=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--server_name={name}"),
        "--jetstream".to_owned(),
        format!("--store_dir={}", directory.path().display()),
    ];
    let mut server = program.start(directory, arguments).await?;
    let answer = within(READY_WITHIN, async || match server.has_ended() {
        Ok(true) => Some(Err(anyhow::anyhow!("nats-server ended while starting"))),
        Ok(false) => greets(port, &name).await.then_some(Ok(())),
        Err(error) => Some(Err(error)),
    });
    let answer = answer.await.unwrap_or_else(|| Err(anyhow::anyhow!("not ready within {READY_WITHIN:?}")));
    answer.with_context(|| format!("cannot start nats-server; {}", server.last_words()))?;
    Ok(server)
}

/// Returns true if the server of that name sends its INFO line, with JetStream in it.
async fn greets(port: u16, name: &str) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return false;
    };
    let mut line = String::new();
    let read = BufReader::new(stream).read_line(&mut line).await;
    read.is_ok()
        && line.contains(&format!("\"server_name\":\"{name}\""))
        && line.contains("\"jetstream\":true")
}
