//! Sets `TIDINGS_REVISION`, the commit from which the program is built.
//!
//! `TIDINGS_BUILD_REVISION` names it for builds without Git, as in the Dockerfile. Otherwise it is the commit of this checkout, or `unknown`
//! for sources that are not a checkout, as in a tarball.

use std::path::Path;
use std::process::Command;

const NAMED: &str = "TIDINGS_BUILD_REVISION";

fn main() {
    println!("cargo::rerun-if-env-changed={NAMED}");
    println!("cargo::rerun-if-changed=build.rs");
    let named = std::env::var(NAMED).ok().filter(|revision| !revision.is_empty());
    let revision = named.or_else(of_checkout).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=TIDINGS_REVISION={revision}");
}

/// Returns the commit of this checkout. Returns None if the sources belong to no checkout, or lie inside that of another project.
fn of_checkout() -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // `HEAD` changes when another branch is checked out, and its log with each commit.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
