use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::Signal;
use sqlx::{Connection, PgConnection};

use crate::directory::Directory;
use crate::os_account::OsAccount;
use crate::process::{Process, Start};
use crate::waiting::within;
use crate::{installed, password, port};

const NAME: &str = "tidings";
/// Time limit, long enough for the recovery after a kill -9 under heavy load.
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const INITDB_WITHIN: Duration = Duration::from_secs(120);
/// Tries, because another process may start to use the chosen port.
const PORT_TRIES: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    Full,
    /// For tests: committed data survives a kill -9 of PostgreSQL, but not a power failure.
    Process,
}

/// The server is killed when this value is dropped or this process ends in any way. Its data stays on disk.
#[derive(Debug)]
pub struct Postgres {
    directory: Directory,
    durability: Durability,
    port: u16,
    url: String,
    process: Process,
}

impl Postgres {
    /// Fails if another instance uses the directory.
    pub async fn start(directory: &Path) -> anyhow::Result<Self> {
        Self::start_as(directory, Durability::Full).await
    }

    /// Starts the cluster without fsync, for tests.
    pub async fn start_fast(directory: &Path) -> anyhow::Result<Self> {
        Self::start_as(directory, Durability::Process).await
    }

    async fn start_as(directory: &Path, durability: Durability) -> anyhow::Result<Self> {
        let directory = Directory::claim(directory).await?;
        prepare(&directory, durability).await?;
        let password = password::read_or_create(&directory.path().join("password"))?;
        let mut tries = 1;
        let (port, process) = loop {
            let port = port::free()?;
            match launch(&directory, durability, port, &url(&password, port, "postgres")).await {
                Ok(process) => break (port, process),
                // Another process has started to use the port since it was chosen.
                Err(_) if tries < PORT_TRIES && !port::is_free(port) => tries += 1,
                Err(error) => return Err(error),
            }
        };
        create_database(&url(&password, port, "postgres")).await?;
        let url = url(&password, port, NAME);
        Ok(Self { directory, durability, port, url, process })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.ended()?.is_none())
    }

    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Kills the postmaster and all its child processes with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Requests PostgreSQL's immediate shutdown (SIGQUIT): the server ends without a checkpoint. Processes that have not ended within 30 s
    /// are killed.
    pub async fn stop_immediately(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::QUIT)?;
        within(STOPPED_WITHIN, async || self.process.ended().transpose()).await.transpose()?;
        self.process.kill();
        Ok(())
    }

    /// Sends SIGSTOP to all processes of the server: connections stay open, but it does not answer until [`resume`](Self::resume).
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process.pause_with_children()
    }

    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process.resume_with_children()
    }

    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process.kill();
        self.directory.reclaim().await?;
        self.process = launch(&self.directory, self.durability, self.port, &self.url).await?;
        Ok(())
    }

    /// Fails if the server had to be killed after 30 s.
    pub async fn stop(self) -> anyhow::Result<()> {
        let log = self.process.log().to_owned();
        let clean = self.process.stop(Signal::INT, STOPPED_WITHIN).await?;
        ensure!(
            clean,
            "PostgreSQL did not stop within {STOPPED_WITHIN:?} and was killed; see {}",
            log.display()
        );
        Ok(())
    }
}

fn url(password: &str, port: u16, database: &str) -> String {
    format!("postgres://{NAME}:{password}@127.0.0.1:{port}/{database}")
}

/// If an earlier call was interrupted, removes its files and starts again.
async fn prepare(directory: &Directory, durability: Durability) -> anyhow::Result<()> {
    let path = directory.path();
    let (data, complete) = (path.join("data"), path.join("complete"));
    if complete.exists() {
        return same_version(&data);
    }
    if data.exists() {
        std::fs::remove_dir_all(&data)?;
    }
    let account = OsAccount::for_postgres(path)?;
    let password = path.join("password");
    password::read_or_create(&password)?;
    if let Some(account) = account {
        account.take(path)?;
        account.take(&password)?;
    }
    initdb(directory, account, durability).await?;
    File::create(complete)?.sync_all()?;
    Ok(())
}

fn same_version(data: &Path) -> anyhow::Result<()> {
    let of_data = std::fs::read_to_string(data.join("PG_VERSION"))?;
    let program = installed::postgres_bin()?.join("postgres");
    let output = std::process::Command::new(&program).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let of_program =
        text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let of_program = of_program.unwrap_or_default();
    ensure!(
        of_program.split('.').next() == Some(of_data.trim()),
        "the files in {} were created by PostgreSQL {}, but {} is version {of_program}. \
         Put the programs of version {0} first in the PATH, or choose another data directory",
        data.display(),
        of_data.trim(),
        program.display(),
    );
    Ok(())
}

async fn initdb(
    directory: &Directory,
    account: Option<OsAccount>,
    durability: Durability,
) -> anyhow::Result<()> {
    let seen = seen_by_postgres(directory, account);
    let mut start = start(directory, account, "initdb")?
        .argument(format!("--pgdata={seen}/data"))
        .argument(format!("--pwfile={seen}/password"))
        .argument(format!("--username={NAME}"));
    for fixed in ["--encoding=UTF8", "--no-locale", "--no-instructions"] {
        start = start.argument(fixed);
    }
    start = match durability {
        Durability::Full => start.argument("--auth=scram-sha-256"),
        // Use MD5, because SCRAM is slow by design: in a debug build, it takes a tenth of a second per connection.
        Durability::Process => start.argument("--auth=md5").argument("--no-sync"),
    };
    let mut process = Process::start(&start)?;
    let ended = within(INITDB_WITHIN, async || process.ended().transpose()).await;
    let status = ended.with_context(|| format!("initdb took longer than {INITDB_WITHIN:?}"))??;
    ensure!(status.success(), "initdb failed ({status}); {}", process.last_words());
    Ok(())
}

fn start(directory: &Directory, account: Option<OsAccount>, program: &str) -> anyhow::Result<Start> {
    let log = directory.path().join(format!("{program}.log"));
    let mut start = Start::new(installed::postgres_bin()?.join(program), log);
    start.directory = Some(directory.descriptor());
    start.account = account;
    Ok(start)
}

/// If the server runs under another account, that account may not have access to a parent directory, such as `/root`. In that case, the
/// server uses the directory's descriptor, which it inherits.
fn seen_by_postgres(directory: &Directory, account: Option<OsAccount>) -> String {
    match account {
        Some(_) if cfg!(target_os = "linux") => "/proc/self/fd/9".to_owned(),
        _ => directory.path().display().to_string(),
    }
}

/// A new postmaster would refuse to start, because the process still seems to run. A zombie remains if this program was killed in a
/// container whose first process does not reap orphans.
fn forget_defunct_postmaster(directory: &Directory) -> anyhow::Result<()> {
    let pid_file = directory.path().join("data").join("postmaster.pid");
    let Ok(text) = std::fs::read_to_string(&pid_file) else {
        return Ok(());
    };
    let pid = text.lines().next().unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if status.lines().any(|line| line.starts_with("State:\tZ")) {
        std::fs::remove_file(pid_file)?;
    }
    Ok(())
}

async fn launch(
    directory: &Directory,
    durability: Durability,
    port: u16,
    url: &str,
) -> anyhow::Result<Process> {
    forget_defunct_postmaster(directory)?;
    let account = OsAccount::for_postgres(directory.path())?;
    let mut start = start(directory, account, "postgres")?
        .argument("-D")
        .argument(format!("{}/data", seen_by_postgres(directory, account)));
    let mut settings = vec![
        format!("port={port}"),
        "listen_addresses=127.0.0.1".to_owned(),
        "unix_socket_directories=".to_owned(),
        "max_connections=300".to_owned(),
    ];
    if durability == Durability::Process {
        settings.extend(["fsync=off", "full_page_writes=off"].map(str::to_owned));
    }
    for setting in settings {
        start = start.argument("-c").argument(setting);
    }
    let mut process = Process::start(&start)?;
    let answer = within(READY_WITHIN, async || match process.ended() {
        Ok(Some(status)) => Some(Err(anyhow::anyhow!("PostgreSQL ended while starting ({status})"))),
        Ok(None) => PgConnection::connect(url).await.ok().map(Ok),
        Err(error) => Some(Err(error)),
    });
    let answer = answer.await.unwrap_or_else(|| Err(anyhow::anyhow!("not ready within {READY_WITHIN:?}")));
    answer.with_context(|| format!("cannot start PostgreSQL; {}", process.last_words()))?.close().await?;
    Ok(process)
}

async fn create_database(url: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(NAME)
        .fetch_one(&mut connection)
        .await?;
    if !exists {
        sqlx::query("CREATE DATABASE tidings").execute(&mut connection).await?;
    }
    connection.close().await?;
    Ok(())
}
