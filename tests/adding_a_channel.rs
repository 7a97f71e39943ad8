//! Follows the steps of `docs/adding-a-channel.md`: writes the files of the page into a copy of the sources, applies its diffs,
//! then builds and tests the copy. `cargo xtask nightly channel` builds; other runs only write and apply.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PAGE: &str = "docs/adding-a-channel.md";
/// Files and folders to copy.
const SOURCES: [&str; 14] = [
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "rustfmt.toml",
    "docker-compose.yml",
    "README.md",
    ".config",
    "clients",
    "deploy",
    "docs",
    "libs",
    "services",
    "tests",
    "xtask",
];

/// A fenced block of the page.
struct Block {
    info: String,
    text: String,
}

#[test]
fn the_steps_of_the_page_fit_the_sources() {
    follow("adding-a-channel-steps");
}

#[test]
#[ignore = "compiles most of the workspace a second time; `cargo xtask nightly` runs it"]
fn the_steps_of_the_page_build_a_working_provider_and_channel() {
    let copy = follow("adding-a-channel");
    take_over_dependencies(&crates(root()));
    let tests = ["--workspace", "--test", "sendgrid", "--test", "whatsapp"];
    cargo(&copy, "test", &tests);
    // With the tests, cargo selects the same features of the dependencies as for all targets, so it finds them built.
    cargo(&copy, "check", &[&tests[..], &["--bins"]].concat());
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Writes the files of the page into a copy of the sources, applies its diffs, and returns the copy. A test always uses the same
/// folder, so that cargo builds only what has changed since the last run.
fn follow(folder: &str) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    copy_sources(root(), &copy);
    let blocks = blocks(&fs::read_to_string(root().join(PAGE)).unwrap());
    let (mut files, mut changes) = (0, 0);
    for Block { info, text } in &blocks {
        if let Some((_, file)) = info.split_once("file=") {
            let path = copy.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            files += 1;
        } else if info == "diff" {
            apply(&copy, text);
            changes += 1;
        }
    }
    assert!(files >= 11 && changes >= 4, "{files} files and {changes} changes are on the page");
    copy
}

/// Returns the names of the workspace's crates and test programs, as cargo writes them in the names of files.
fn crates(root: &Path) -> Vec<String> {
    let folders = ["libs", "services", "tests"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let names = folders.into_iter().flatten().map(|entry| {
        let path = entry.unwrap().path();
        path.file_stem().unwrap().to_str().unwrap().replace('-', "_")
    });
    names.chain(["suite", "xtask"].map(str::to_owned)).collect()
}

/// Copies the built dependencies of this workspace into the target folder of the copy. Both workspaces have the same dependencies,
/// and building them takes most of the time of a build.
fn take_over_dependencies(ours: &[String]) {
    let from = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug");
    for folder in ["deps", "build", ".fingerprint"] {
        // The folder is missing if this test was built with another profile. The copy then builds its dependencies itself.
        let Ok(entries) = fs::read_dir(from.join(folder)) else { continue };
        for entry in entries {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let of_crate = name.rsplit_once('-').map_or(&*name, |(of_crate, _)| of_crate).replace('-', "_");
            let is_ours =
                ours.iter().any(|ours| of_crate == *ours || of_crate.strip_prefix("lib") == Some(ours));
            // The folder `deps` also contains the test programs of this workspace.
            if !is_ours && (folder != "deps" || name.starts_with("lib")) {
                take_over(&from.join(folder).join(&name), &target().join("debug").join(folder).join(&name));
            }
        }
    }
}

/// Copies a file or all files of a folder with their times, by which cargo knows whether a dependency must be built again. Skips
/// files that are the same already.
fn take_over(from: &Path, to: &Path) {
    if from.is_dir() {
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            take_over(&from.join(&name), &to.join(&name));
        }
        return;
    }
    let changed_at = fs::metadata(from).unwrap().modified().unwrap();
    if fs::metadata(to).and_then(|file| file.modified()).is_ok_and(|at| at == changed_at) {
        return;
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
    fs::File::options().append(true).open(to).unwrap().set_modified(changed_at).unwrap();
}

/// Copies the sources, and removes files that are no longer in them. Writes only files that differ, so that cargo does not build
/// the others again.
fn copy_sources(from: &Path, to: &Path) {
    let mut wanted = Vec::new();
    for source in SOURCES {
        collect(from, Path::new(source), &mut wanted);
    }
    let mut there = Vec::new();
    if to.exists() {
        collect(to, Path::new(""), &mut there);
    }
    for file in there.iter().filter(|file| !wanted.contains(file)) {
        fs::remove_file(to.join(file)).unwrap();
    }
    for file in wanted {
        let (content, copy) = (fs::read(from.join(&file)).unwrap(), to.join(&file));
        if fs::read(&copy).ok().as_ref() != Some(&content) {
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::write(copy, content).unwrap();
        }
    }
}

fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) {
    let full = root.join(path);
    if !full.is_dir() {
        files.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(full).unwrap() {
        let name = entry.unwrap().file_name();
        if name != "target" && name != ".tidings" && name != "node_modules" {
            collect(root, &path.join(name), files);
        }
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some(Block { info: info.to_owned(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fenced block of {PAGE} is not closed");
    blocks
}

/// Applies a diff of the page to the copy. Git finds the place by the context lines; the line numbers may be wrong.
fn apply(copy: &Path, change: &str) {
    let mut git = Command::new("git");
    git.args(["apply", "-"]).current_dir(copy).stdin(Stdio::piped());
    // Do not let git treat the copy as part of the repository that contains the target folder.
    git.env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap());
    let mut applying = git.spawn().unwrap();
    applying.stdin.take().unwrap().write_all(change.as_bytes()).unwrap();
    assert!(
        applying.wait().unwrap().success(),
        "a diff of {PAGE} no longer applies to the sources:\n{change}"
    );
}

/// Target folder of the copy. It is a separate one, because cargo confuses two checkouts of a workspace that use the same folder.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding-a-channel-target")
}

fn cargo(copy: &Path, verb: &str, arguments: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg(verb).args(arguments).arg("--offline").current_dir(copy).env("CARGO_TARGET_DIR", target());
    let output = cargo.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo {verb} {arguments:?}: {errors}{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
