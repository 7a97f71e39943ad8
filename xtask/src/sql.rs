use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::containers::Container;
use crate::provision::{self, Source};
use crate::steps;

/// Names a PostgreSQL in which databases may be created.
const DATABASE: &str = "TIDINGS_TEST_DATABASE_URL";
const SPACE_MEBIBYTES: u64 = 2048;

/// Write the descriptions with which the compiler checks SQL statements
///
/// The macro `query!` and similar macros in libs/store are compiled without a database, because libs/store/.sqlx describes the
/// types of their parameters and columns, in one file per statement. This command starts a private PostgreSQL (unless
/// TIDINGS_TEST_DATABASE_URL names a running one), applies the migrations to a new database, and compiles libs/store against it,
/// in a target directory that no other build uses. It then writes missing and changed descriptions, and deletes the descriptions
/// of statements that no longer exist.
///
/// The tests `descriptions` of libs/store fail if a description is not up to date.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0  the descriptions are up to date now
  2  a statement does not fit the schema, or the command failed

Examples:
  cargo xtask sql                             after a change of a statement or a migration
  cargo xtask test -p store descriptions      checks them and changes nothing")]
pub(crate) struct Arguments {}

/// Text of each description by the name of its file.
type Descriptions = BTreeMap<String, String>;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let committed = crate::workspace().join("libs/store/.sqlx");
    let (old, new) = (read(&committed)?, describe()?);
    let (mut added, mut changed, mut deleted) = (0, 0, 0);
    for (name, text) in &new {
        match old.get(name) {
            Some(old) if old == text => continue,
            Some(_) => changed += 1,
            None => added += 1,
        }
        std::fs::write(committed.join(name), text)?;
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        std::fs::remove_file(committed.join(name))?;
        deleted += 1;
    }
    println!("{} descriptions: {added} added, {changed} changed, {deleted} deleted", new.len());
    Ok(ExitCode::SUCCESS)
}

fn describe() -> anyhow::Result<Descriptions> {
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    let server = match provision::postgres(DATABASE)? {
        Source::Docker => Some(Container::postgres(&crate::private_directory().join("test"))?),
        Source::Running | Source::Programs => None,
    };
    steps::run(steps::cargo().args([
        "build",
        "--quiet",
        "--package",
        "local-servers",
        "--bin",
        "with-schema",
    ]))?;
    let target = steps::target_directory()?;
    let written = empty(target.join("statements").join("descriptions"))?;

    steps::say("compiling the statements; the first time takes a few minutes");
    let mut command = Command::new(target.join("debug").join("with-schema"));
    command
        .current_dir(crate::workspace())
        .arg("libs/store/migrations")
        .arg(steps::cargo().get_program())
        // With `--release`, cargo compiles the crates of the macros without optimisation, which takes a fraction of the time.
        .args(["check", "--quiet", "--release", "--package", "store", "--lib", "--target-dir"])
        .arg(target.join("statements"))
        .env("SQLX_OFFLINE_DIR", &written);
    if let Some(server) = &server {
        command.env(DATABASE, &server.url);
    }
    steps::run(&mut command)?;
    read(&written)
}

fn empty(directory: PathBuf) -> anyhow::Result<PathBuf> {
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}

fn read(directory: &Path) -> anyhow::Result<Descriptions> {
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    entries
        .map(|entry| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), std::fs::read_to_string(entry.path())?))
        })
        .collect()
}
