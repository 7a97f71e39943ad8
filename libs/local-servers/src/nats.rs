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
/// Includes the recovery of the streams, which can take a long time.
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// Tries, because another process may start to use the chosen port.
const PORT_TRIES: u32 = 5;

/// A server that is killed when this value is dropped or this process ends in any way. The streams stay on disk, unless the directory is
/// temporary.
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
    /// Starts a server in a temporary directory, which dropping the server removes. `TIDINGS_TEST_NATS_SERVER` can name another program.
    pub async fn start() -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tidings-nats-").tempdir()?;
        let server = Self::start_at(files.path()).await?;
        Ok(Self { _files: Some(files), ..server })
    }

    /// Stores streams and log in `directory`, which the caller must remove.
    pub async fn start_at(directory: &Path) -> anyhow::Result<Self> {
        Self::start_program(Program::of_tests()?, Directory::claim(directory).await?, "", None).await
    }

    pub async fn start_with(settings: &str) -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tidings-nats-").tempdir()?;
        let directory = Directory::claim(files.path()).await?;
        let server = Self::start_program(Program::of_tests()?, directory, settings, None).await?;
        Ok(Self { _files: Some(files), ..server })
    }

    pub fn program() -> anyhow::Result<PathBuf> {
        nats_program::file()
    }

    /// Stores streams in `directory`, with the password that clients need. Fails if another instance uses the directory.
    pub async fn start_in(directory: &Path) -> anyhow::Result<Self> {
        let directory = Directory::claim(directory).await?;
        let password = password::read_or_create(&directory.path().join("password"))?;
        // The password is in a file, because every account can read command lines.
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
                // Another process has started to use the port since it was chosen.
                Err(_) if tries < PORT_TRIES && !port::is_free(port) => tries += 1,
                Err(error) => return Err(error),
            }
        };
        let login = password.map_or_else(String::new, |password| format!("{USER}:{password}@"));
        let url = format!("nats://{login}127.0.0.1:{port}");
        Ok(Self { program, directory, port, url, server, _files: None })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(!self.server.has_ended()?)
    }

    pub fn log(&self) -> &Path {
        self.server.log()
    }

    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Sends SIGSTOP: connections stay open, but the server does not answer until [`resume`](Self::resume).
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.server.pause()
    }

    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.server.resume()
    }

    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.server.kill();
        self.directory.reclaim().await?;
        self.server = launch(&self.program, &self.directory, self.port).await?;
        Ok(())
    }

    /// Fails if the server had to be killed after 30 s.
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
    // The random name distinguishes this server from a server that another process started on the same port.
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
