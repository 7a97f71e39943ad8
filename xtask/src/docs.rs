use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

/// Write the guides to a folder, as a site for any web server
///
/// The pages are those that every gateway serves at /guide, with their search. With --openapi they include the API reference.
/// Links begin with a slash, so the folder has to be the root of its site.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0  the site is written
  2  the command failed

Examples:
  cargo xtask docs && python3 -m http.server --directory target/guide
  curl -o openapi.json localhost:8080/openapi.json && cargo xtask docs --openapi openapi.json")]
pub(crate) struct Arguments {
    /// Folder of the site [default: target/guide]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// OpenAPI document of a gateway, for the API reference
    #[arg(long, value_name = "FILE")]
    openapi: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let to = arguments.to.clone().unwrap_or_else(|| crate::workspace().join("target/guide"));
    let mut site = Command::new(env!("CARGO"));
    site.args(["run", "--quiet", "--package", "handbook", "--example", "site", "--"]).arg(&to);
    site.args(arguments.openapi.as_deref().map(Path::as_os_str));
    let status = site.status().context("cannot start cargo")?;
    ensure!(status.success(), "the site could not be written");
    println!("{}", to.display());
    Ok(ExitCode::SUCCESS)
}
