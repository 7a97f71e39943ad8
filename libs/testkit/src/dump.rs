//! Backups of a test's database, as operators take them: by `pg_dump`, put back by `pg_restore`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::database::Database;
use local_servers::installed;

impl Database {
    /// Writes what the database holds now to a file, while others go on writing.
    ///
    /// # Errors
    /// `pg_dump` is not there, or failed.
    pub fn dump(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.to_str().context("a path that is text")?;
        run("pg_dump", &["--format=custom", "--dbname", self.url(), "--file", file])
    }

    /// A database of its own with what is in such a file.
    ///
    /// # Errors
    /// `pg_restore` is not there, or failed.
    pub async fn restored(file: &Path) -> anyhow::Result<Database> {
        let database = Database::create().await;
        database.restore_in_place(file)?;
        Ok(database)
    }

    /// Puts what is in such a file in the place of what the database holds.
    ///
    /// # Errors
    /// `pg_restore` is not there, or failed.
    pub fn restore_in_place(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.to_str().context("a path that is text")?;
        let options = ["--clean", "--if-exists", "--exit-on-error", "--no-owner", "--dbname"];
        run("pg_restore", &[&options[..], &[self.url(), file]].concat())
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    // The server's programs may be linked one by one into a directory of the PATH; this one lies where they lie.
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
