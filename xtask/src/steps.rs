use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, ensure};

/// Cargo's arguments for the builds of long runs.
pub(crate) const OPTIMIZED: [&str; 2] = ["--profile", "optimized"];

pub(crate) fn say(line: &str) {
    eprintln!("xtask: {line}");
}

pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = Path::new(command.get_program()).display().to_string();
    let name = name.rsplit('/').next().unwrap_or_default();
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "{name} failed ({}): {problem}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The program is the cargo that runs this process.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::workspace());
    command
}

/// CARGO_TARGET_DIR or cargo's configuration files may set the directory.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    let metadata = output(cargo().args(["metadata", "--no-deps", "--offline", "--format-version=1"]))?;
    let (_, rest) =
        metadata.split_once("\"target_directory\":\"").context("cargo metadata names no target")?;
    let (directory, _) = rest.split_once('"').context("cargo metadata names no target")?;
    Ok(PathBuf::from(directory))
}

/// Returns 128 + n if signal n ended the program, as shells do.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

pub(crate) fn enough_space(path: &Path, mebibytes: u64) -> anyhow::Result<()> {
    let existing = path.ancestors().find(|folder| folder.exists()).unwrap_or(path);
    let report = output(Command::new("df").arg("-Pk").arg(existing))?;
    let free = report.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    let free = free.with_context(|| format!("cannot read the output of df: {report}"))? / 1024;
    ensure!(
        free >= mebibytes,
        "the disk of {} is nearly full: {free} MiB are free, and {mebibytes} MiB are needed. \
         Free some space, or choose another disk",
        existing.display()
    );
    Ok(())
}
