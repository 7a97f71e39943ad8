//! Python packages with which the suite checks messages on the wire, independently of Tidings.

use std::path::Path;
use std::process::Command;

use crate::{provision, steps};

/// Names a Python in which the packages of `tests/wire/requirements.txt` are already installed.
pub(crate) const PYTHON: &str = "TIDINGS_TEST_PYTHON";
const APT_VENV: &str = "apt-get install -y --no-install-recommends python3-venv";

/// Creates `target/wire`, unless it is up to date.
pub(crate) fn environment() -> anyhow::Result<()> {
    let requirements = crate::workspace().join("tests").join("wire").join("requirements.txt");
    let environment = steps::target_directory()?.join("wire");
    // Copy the requirements last. If the creation is interrupted, the copy is missing, and the next run creates the environment
    // again.
    let made_for = environment.join("requirements.txt");
    let wanted = std::fs::read(&requirements)?;
    if std::fs::read(&made_for).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    steps::say(&format!("Python packages: fetching them into {}", environment.display()));
    if environment.exists() {
        std::fs::remove_dir_all(&environment)?;
    }
    let made = || create(&environment).is_ok();
    if !made() && !provision::apt(APT_VENV, made) {
        // The earlier attempts discarded their errors. Try once more, to return the error.
        create(&environment)?;
    }
    steps::run(
        Command::new(environment.join("bin").join("python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(&requirements),
    )?;
    Ok(std::fs::write(made_for, wanted)?)
}

fn create(environment: &Path) -> anyhow::Result<()> {
    steps::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
}
