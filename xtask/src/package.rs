use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::{clients, steps};

/// Build every file of a release, except the image and the chart.
///
/// target/package then has the tarball, the .deb, the bill of materials and the npm packages, with their checksums, ready to be published.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask package                              builds the program with optimisations first
  cargo xtask package target/release/tidings")]
pub(crate) struct Arguments {
    /// A program that is already built.
    program: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let root = crate::workspace();
    steps::run(Command::new(root.join("deploy/package")).args(&arguments.program).current_dir(root))?;
    clients::run(&clients::Arguments)?;
    let packages = root.join("target/package");
    let made = steps::target_directory()?.join("clients");
    for file in std::fs::read_dir(&made).with_context(|| format!("cannot read {}", made.display()))? {
        let path = file?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|end| end == "tgz")) {
            std::fs::copy(&path, packages.join(name))?;
        }
    }
    write_checksums(&packages)?;
    steps::say(&format!("the files of the release are in {}", packages.display()));
    Ok(ExitCode::SUCCESS)
}

/// Replaces the file that `deploy/package` wrote before the npm packages existed.
fn write_checksums(packages: &Path) -> anyhow::Result<()> {
    let script =
        "rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS && ls -l";
    steps::run(Command::new("bash").args(["-euc", script]).current_dir(packages))
}
