//! The npm packages that the tests of the browser clients use. No client depends on them.

use std::process::Command;

use crate::{provision, steps};

const APT_NPM: &str = "apt-get install -y --no-install-recommends npm";

pub(crate) fn packages() -> anyhow::Result<()> {
    let source = crate::workspace().join("tests").join("browser");
    let target = steps::target_directory()?.join("node");
    let wanted = std::fs::read(source.join("package-lock.json"))?;
    // Copy this file last. If the installation is interrupted, the copy is missing, and the next run installs again.
    let made_for = target.join("made-for.json");
    if std::fs::read(&made_for).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    steps::say(&format!("npm packages: fetching them into {}", target.display()));
    std::fs::create_dir_all(&target)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), target.join(file))?;
    }
    let install = || {
        steps::run(
            Command::new("npm")
                // Two versions of React are installed beside each other.
                .args(["ci", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund"])
                .arg("--loglevel=error")
                .current_dir(&target),
        )
    };
    if !steps::succeeds("npm", &["--version"])
        && !provision::apt(APT_NPM, || steps::succeeds("npm", &["--version"]))
    {
        anyhow::bail!("npm is not installed");
    }
    install()?;
    Ok(std::fs::write(made_for, wanted)?)
}
