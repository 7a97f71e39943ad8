//! `with-schema MIGRATIONS COMMAND…` creates a database, applies the migrations of a directory to it, sets
//! `TIDINGS_STATEMENTS_DATABASE_URL` to it, and runs a command. The database is in the PostgreSQL of
//! `TIDINGS_TEST_DATABASE_URL`, or in a private one. The exit code is that of the command.
//!
//! It depends on no crate with statements, so that it also works while one of them does not compile.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};
use testkit::Database;

const USAGE: &str = "usage: with-schema MIGRATIONS COMMAND…";

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let migrations = PathBuf::from(arguments.next().context(USAGE)?);
    let mut command = tokio::process::Command::new(arguments.next().context(USAGE)?);
    let database = Database::create().await;
    let mut connection = PgConnection::connect(database.url()).await?;
    Migrator::new(migrations).await?.run(&mut connection).await?;
    connection.close().await?;
    command.args(arguments).env("TIDINGS_STATEMENTS_DATABASE_URL", database.url());
    let status = command.status().await.context("cannot start the command")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
