//! The Python packages by which the suite checks what goes over the wire: parsers and decrypters that are not ours.

use std::path::Path;
use std::process::Command;

use crate::{provision, steps};

/// Names another Python that has what `tests/wire/requirements.txt` lists.
pub(crate) const PYTHON: &str = "TIDINGS_TEST_PYTHON";
const APT_VENV: &str = "apt-get install -y --no-install-recommends python3-venv";

/// Makes `target/wire`, a virtual environment with what `tests/wire/requirements.txt` lists, unless it is there.
pub(crate) fn environment() -> anyhow::Result<()> {
    let requirements = crate::workspace().join("tests").join("wire").join("requirements.txt");
    let environment = steps::target_directory()?.join("wire");
    // Copied there last, so that what was interrupted is made again.
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
        // Once more, for its words.
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
