//! Backup and restore of a test's database with `pg_dump` and `pg_restore`, which operators use too.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::database::Database;
use local_servers::installed;

impl Database {
    /// Dumps the database, to which other sessions may continue to write.
    pub fn dump(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.to_str().context("the path is not UTF-8")?;
        run("pg_dump", &["--format=custom", "--dbname", self.url(), "--file", file])
    }

    pub async fn restored(file: &Path) -> anyhow::Result<Database> {
        let database = Database::create().await;
        database.restore_in_place(file)?;
        Ok(database)
    }

    pub fn restore_in_place(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.to_str().context("the path is not UTF-8")?;
        let options = ["--clean", "--if-exists", "--exit-on-error", "--no-owner", "--dbname"];
        run("pg_restore", &[&options[..], &[self.url(), file]].concat())
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    // A directory on the PATH may contain links to only some of PostgreSQL's programs. So resolve the link to `postgres`:
    // the directory of the linked program contains all programs.
    let server = installed::postgres_bin()?.join("postgres").canonicalize()?;
    let program = server.with_file_name(program);
    let ended = Command::new(&program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        ended.status.success(),
        "{} failed: {}",
        program.display(),
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(())
}
