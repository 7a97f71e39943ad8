//! `cargo xtask sql`: writes or checks the descriptions of SQL statements in `libs/store/.sqlx`, with which the compiler checks
//! the statements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::containers::Container;
use crate::provision::{self, Source};
use crate::steps;

/// Variable that names a PostgreSQL in which databases may be created.
const DATABASE: &str = "TIDINGS_TEST_DATABASE_URL";
const SPACE_MEBIBYTES: u64 = 2048;
/// Maximum number of characters of a statement that the output shows.
const SHOWN: usize = 70;

/// Write or check the descriptions with which the compiler checks SQL statements
///
/// The macro `query!` and similar macros in libs/store are compiled without a database, because libs/store/.sqlx describes the
/// types of their parameters and columns, in one file per statement. Both commands start a private PostgreSQL (unless
/// TIDINGS_TEST_DATABASE_URL names a running one), apply the migrations to a new database, and compile libs/store against it, in
/// a target directory that no other build uses.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0  the descriptions are up to date
  1  check: some descriptions are not up to date; the output names them
  2  a statement does not fit the schema, or the command failed

Examples:
  cargo xtask sql prepare     after a change of a statement or a migration
  cargo xtask sql check       before a merge, as .ci/run does")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Subcommand)]
enum Action {
    /// Write missing and changed descriptions, and delete the descriptions of statements that no longer exist
    Prepare,
    /// Compare the descriptions with the statements and the migrations, and change nothing
    Check,
}

/// The text of each description by the name of its file.
type Descriptions = BTreeMap<String, String>;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let committed = crate::workspace().join("libs/store/.sqlx");
    let (old, new) = (read(&committed)?, describe()?);
    let lists = [
        ("missing", new.iter().filter(|(name, _)| !old.contains_key(*name)).collect::<Vec<_>>()),
        ("stale", new.iter().filter(|(name, text)| old.get(*name).is_some_and(|old| old != *text)).collect()),
        ("superfluous", old.iter().filter(|(name, _)| !new.contains_key(*name)).collect()),
    ];
    if arguments.action == Action::Check {
        for (problem, descriptions) in &lists {
            for (name, text) in descriptions {
                println!("{problem}: libs/store/.sqlx/{name}: {}", statement(text));
            }
        }
    }
    let [missing, stale, superfluous] = lists.map(|(_, descriptions)| descriptions);
    let differences = missing.len() + stale.len() + superfluous.len();
    if differences == 0 {
        println!("{} descriptions are up to date", new.len());
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.action == Action::Check {
        println!(
            "{differences} descriptions are not up to date; run `cargo xtask sql prepare` and commit the result"
        );
        return Ok(ExitCode::FAILURE);
    }
    for (name, text) in missing.iter().chain(&stale) {
        std::fs::write(committed.join(name), text)?;
    }
    for (name, _) in &superfluous {
        std::fs::remove_file(committed.join(name))?;
    }
    println!(
        "{} descriptions: {} added, {} changed, {} deleted",
        new.len(),
        missing.len(),
        stale.len(),
        superfluous.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// Compiles the statements against a database with the schema, and returns the descriptions that the macros wrote.
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

/// Creates an empty directory. If the directory exists, removes its contents.
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

/// Returns the beginning of the statement that `description` describes, on one line.
fn statement(description: &str) -> String {
    let line = description.lines().find_map(|line| line.trim_start().strip_prefix("\"query\": \""));
    let words = line.unwrap_or_default().trim_end_matches("\",").replace("\\n", " ").replace("\\\"", "\"");
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
}
