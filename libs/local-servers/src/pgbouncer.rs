use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::net::TcpStream;
use url::Url;

use crate::os_account::OsAccount;
use crate::process::{Process, Start};
use crate::waiting::within;
use crate::{installed, port};

const READY_WITHIN: Duration = Duration::from_secs(30);
const SETTINGS: &str = "pgbouncer.ini";

/// PgBouncer that is killed when this value is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    _process: Process,
    _files: TempDir,
}

impl PgBouncer {
    /// `pool_mode` is `session` or `transaction`.
    pub async fn start(url: &str, pool_mode: &str) -> anyhow::Result<PgBouncer> {
        let server: Url = url.parse()?;
        let files = tempfile::Builder::new().prefix("tidings-pgbouncer-").tempdir()?;
        let port = port::free()?;
        let settings = files.path().join(SETTINGS);
        std::fs::write(
            &settings,
            format!(
                "[databases]\n* = host=127.0.0.1 port={} user={} password={}\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
                 auth_type = any\npool_mode = {pool_mode}\n",
                server.port().context("the database URL has no port")?,
                server.username(),
                server.password().context("the database URL has no password")?,
            ),
        )?;
        // PgBouncer refuses to run as root, as PostgreSQL does.
        let account = OsAccount::for_postgres(files.path())?;
        if let Some(account) = account {
            account.take(files.path())?;
            account.take(&settings)?;
        }
        let process = launch(files.path(), account, port).await?;
        let mut url = server;
        url.set_host(Some("127.0.0.1"))?;
        url.set_port(Some(port)).map_err(|()| anyhow::anyhow!("the database URL cannot have a port"))?;
        Ok(PgBouncer { url: url.into(), _process: process, _files: files })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn launch(folder: &Path, account: Option<OsAccount>, port: u16) -> anyhow::Result<Process> {
    let mut start = Start::new(installed::pgbouncer()?, folder.join("pgbouncer.log"));
    start.account = account;
    let start = start.argument(folder.join(SETTINGS).display().to_string());
    let mut process = Process::start(&start)?;
    let answer = within(READY_WITHIN, async || match process.ended() {
        Ok(Some(status)) => Some(Err(anyhow::anyhow!("PgBouncer ended while starting ({status})"))),
        Ok(None) => TcpStream::connect(("127.0.0.1", port)).await.ok().map(|_| Ok(())),
        Err(error) => Some(Err(error)),
    });
    let answer = answer.await.unwrap_or_else(|| Err(anyhow::anyhow!("not ready within {READY_WITHIN:?}")));
    answer.with_context(|| format!("cannot start PgBouncer; {}", process.last_words()))?;
    Ok(process)
}
