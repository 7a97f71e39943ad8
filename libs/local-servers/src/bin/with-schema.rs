//! `with-schema MIGRATIONS COMMAND…` creates a database, applies the migrations in the directory MIGRATIONS to it, and runs
//! COMMAND with the URL of the database in `TIDINGS_STATEMENTS_DATABASE_URL`. The database is in the PostgreSQL that
//! `TIDINGS_TEST_DATABASE_URL` names, or in a private PostgreSQL. It is dropped afterwards. The exit code is the exit code of the
//! command.
//!
//! This program depends on no crate whose SQL statements the compiler checks. So it can be built while the descriptions of the
//! statements in `libs/store/.sqlx` are missing.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use anyhow::Context;
use local_servers::Postgres;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::process::Command;
use url::Url;

const USAGE: &str = "usage: with-schema MIGRATIONS COMMAND…";
const SERVER: &str = "TIDINGS_TEST_DATABASE_URL";

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let migrations = PathBuf::from(arguments.next().context(USAGE)?);
    let mut command = Command::new(arguments.next().context(USAGE)?);
    command.args(arguments);
    let status = match std::env::var(SERVER) {
        Ok(server) => run(&server, &migrations, command).await?,
        Err(_) => {
            let files = tempfile::Builder::new().prefix("tidings-statements-").tempdir()?;
            let postgres = Postgres::start_fast(&files.path().join("postgres")).await?;
            run(postgres.url(), &migrations, command).await?
        }
    };
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

async fn run(server: &str, migrations: &Path, mut command: Command) -> anyhow::Result<ExitStatus> {
    let name = format!("statements_{}", std::process::id());
    let mut url = Url::parse(server).context(SERVER)?;
    url.set_path(&name);
    let mut connection = PgConnection::connect(server).await.context(SERVER)?;
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await?;
    let status = async {
        let mut migrated = PgConnection::connect(url.as_str()).await?;
        Migrator::new(migrations).await?.run(&mut migrated).await?;
        migrated.close().await?;
        command.env("TIDINGS_STATEMENTS_DATABASE_URL", url.as_str());
        command.status().await.context("cannot start the command")
    };
    let status = status.await;
    sqlx::query(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut connection).await?;
    connection.close().await?;
    status
}
