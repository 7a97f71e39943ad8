//! `xtask` includes this file as source, so that it installs programs where this code finds them. Therefore the file depends only on `std`
//! and `anyhow`.

use std::path::{Path, PathBuf};

use anyhow::Context;

const OLDEST_POSTGRES: u32 = 14;

const POSTGRES_COMMANDS: [(&str, &str); 6] = [
    ("apt-get", "sudo apt-get install postgresql"),
    ("dnf", "sudo dnf install postgresql-server"),
    ("pacman", "sudo pacman -S postgresql"),
    ("apk", "sudo apk add postgresql"),
    ("brew", "brew install postgresql@17"),
    ("", "the package that https://www.postgresql.org/download/ offers for this system"),
];
const NATS_COMMANDS: [(&str, &str); 3] = [
    ("apt-get", "sudo apt-get install nats-server"),
    ("brew", "brew install nats-server"),
    ("", "the archive that https://github.com/nats-io/nats-server/releases offers for this system"),
];

const PGBOUNCER_COMMANDS: [(&str, &str); 5] = [
    ("apt-get", "sudo apt-get install pgbouncer"),
    ("dnf", "sudo dnf install pgbouncer"),
    ("pacman", "sudo pacman -S pgbouncer"),
    ("brew", "brew install pgbouncer"),
    ("", "the package that this system has for it"),
];

const CHROMIUM_COMMANDS: [(&str, &str); 5] = [
    ("apt-get", "sudo apt-get install chromium"),
    ("dnf", "sudo dnf install chromium"),
    ("pacman", "sudo pacman -S chromium"),
    ("brew", "brew install --cask chromium"),
    ("", "the package that this system has for it"),
];
const CHROMIUM: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium"];

/// Searches the `PATH` first, then the directories that distributions and Homebrew use, newest version first.
pub fn postgres_bin() -> anyhow::Result<PathBuf> {
    path_directories()
        .into_iter()
        .chain(newest_first(Path::new("/usr/lib/postgresql"), "bin"))
        .chain(newest_first(Path::new("/opt/homebrew/opt"), "bin"))
        .chain(newest_first(Path::new("/usr/local/opt"), "bin"))
        .find(|directory| is_program(&directory.join("initdb")) && is_program(&directory.join("postgres")))
        .with_context(|| {
            format!(
                "PostgreSQL's server programs (initdb, postgres, version {OLDEST_POSTGRES} or newer) are not installed.\n\
                 Install them with: {}\n\
                 or set DATABASE_URL to a running PostgreSQL",
                command_for(&POSTGRES_COMMANDS)
            )
        })
}

/// Searches the `PATH` first, then the directories of packages, then `.tidings/tools`, into which `cargo xtask` downloads it.
pub fn nats_server() -> anyhow::Result<PathBuf> {
    path_directories()
        .into_iter()
        .chain(["/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from))
        .chain(tools_directories())
        .map(|directory| directory.join("nats-server"))
        .find(|program| is_program(program))
        .with_context(|| {
            format!(
                "nats-server is not installed.\n\
                 Install it with: {}\n\
                 or set NATS_URL to a running nats-server with JetStream",
                command_for(&NATS_COMMANDS)
            )
        })
}

pub fn pgbouncer() -> anyhow::Result<PathBuf> {
    path_directories()
        .into_iter()
        .chain(["/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from))
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| is_program(program))
        .with_context(|| {
            format!("PgBouncer is not installed.\nInstall it with: {}", command_for(&PGBOUNCER_COMMANDS))
        })
}

pub fn chromium() -> anyhow::Result<PathBuf> {
    let directories = path_directories().into_iter().chain(["/usr/bin", "/snap/bin"].map(PathBuf::from));
    directories
        .flat_map(|directory| CHROMIUM.map(|name| directory.join(name)))
        .find(|program| is_program(program))
        .with_context(|| {
            format!("Chromium is not installed.\nInstall it with: {}", command_for(&CHROMIUM_COMMANDS))
        })
}

/// The last entry is the fallback.
fn command_for(commands: &[(&str, &'static str)]) -> &'static str {
    let places = path_directories();
    let on_path = |program: &str| places.iter().any(|directory| is_program(&directory.join(program)));
    commands
        .iter()
        .find(|(manager, _)| manager.is_empty() || on_path(manager))
        .map_or("", |(_, command)| command)
}

fn path_directories() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Directories `base/*/last` of PostgreSQL versions (`16`, `postgresql@16`), newest first.
fn newest_first(base: &Path, last: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(base) else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.trim_start_matches("postgresql@").parse().ok()?;
            Some((version, entry.path().join(last)))
        })
        .filter(|(version, _)| *version >= OLDEST_POSTGRES)
        .collect();
    versions.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// Directories `.tidings/tools` above the working directory and above this program.
fn tools_directories() -> Vec<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .map(|folder| folder.join(".tidings").join("tools"))
        .collect()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
