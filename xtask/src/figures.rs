//! `cargo xtask figures`: figures about the size of the code and the style of its comments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::workspace;

/// Print figures about the size of the code and the style of its comments
///
/// Counts lines of source and tests, files on the path of a send, links between modules of the store, and lengths of functions.
/// Also counts doc comments that are very short or begin with a headless clause, such as "What is sent". `tests/architecture.rs`
/// limits some of these figures.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  cargo xtask figures")]
pub(crate) struct Arguments;

/// First words of a sentence that begins with a headless clause.
const HEADLESS: [&str; 5] = ["What", "Who", "Whether", "How", "Where"];
/// A doc comment of at most this many words counts as very short. Such a comment rarely says more than the name of its item.
const FEW_WORDS: usize = 3;

pub(crate) fn run(_: &Arguments) -> anyhow::Result<ExitCode> {
    let (source, tests) = (production()?, tests()?);
    println!("source            {:>7} lines in {} files", lines(&source)?, source.len());
    println!("tests             {:>7} lines in {} files", lines(&tests)?, tests.len());
    let path = path_of_a_send()?;
    println!("path of a send    {:>7} lines in {} files", lines(&path)?, path.len());
    let modules: Vec<_> =
        source.iter().filter(|file| file.starts_with(workspace().join("libs/store/src"))).collect();
    println!("store             {:>7} files, {} links between its modules", modules.len(), arrows(&modules)?);

    let mut functions = Vec::new();
    let (mut blocks, mut headless, mut few) = (0_usize, 0_usize, 0_usize);
    for file in &source {
        let text = read(file)?;
        functions.extend(function_lengths(&text));
        for block in doc_blocks(&text) {
            blocks += 1;
            headless += usize::from(HEADLESS.contains(&block.split_whitespace().next().unwrap_or_default()));
            few += usize::from(block.split_whitespace().count() <= FEW_WORDS);
        }
    }
    functions.sort_unstable();
    let at = |percent: usize| functions.get(functions.len() * percent / 100).copied().unwrap_or_default();
    println!(
        "functions         {:>7}, median {} lines, p90 {}, longest {}",
        functions.len(),
        at(50),
        at(90),
        functions.last().copied().unwrap_or_default()
    );
    println!(
        "doc comments      {blocks:>7}, {:.1} % begin with {}, {few} have {FEW_WORDS} words or fewer",
        100.0 * headless as f64 / blocks.max(1) as f64,
        HEADLESS.join("/")
    );
    Ok(ExitCode::SUCCESS)
}

/// Lists the Rust files of the crates, except test files.
fn production() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in ["libs", "services", "xtask"] {
        collect(&workspace().join(folder), &mut found)?;
    }
    found.retain(|file| !is_test(file));
    Ok(found)
}

fn tests() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in ["libs", "services", "tests"] {
        collect(&workspace().join(folder), &mut found)?;
    }
    found.retain(|file| is_test(file));
    Ok(found)
}

fn is_test(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "tests")
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// Lists the files that `ARCHITECTURE.md` names under "The path of a send".
fn path_of_a_send() -> anyhow::Result<Vec<PathBuf>> {
    let page = read(&workspace().join("ARCHITECTURE.md"))?;
    let (_, section) =
        page.split_once("\n## The path of a send\n").context("no section `The path of a send`")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let files = rows.filter_map(|row| row.split('`').next());
    Ok(files.map(|file| workspace().join(file)).collect())
}

/// Counts the pairs of modules of the store in which one module uses the other.
fn arrows(modules: &[&PathBuf]) -> anyhow::Result<usize> {
    let root = workspace().join("libs/store/src");
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in modules {
        let inside = file.strip_prefix(&root)?;
        let room =
            inside.components().next().map(|part| part.as_os_str().to_string_lossy().replace(".rs", ""));
        let text = read(file)?;
        let uses = text
            .split("crate::")
            .skip(1)
            .filter_map(|rest| rest.split(|letter: char| !letter.is_alphanumeric()).next());
        named.entry(room.unwrap_or_default()).or_default().extend(uses.map(str::to_owned));
    }
    let rooms: Vec<_> = named.keys().cloned().collect();
    Ok(named
        .iter()
        .map(|(room, uses)| rooms.iter().filter(|other| *other != room && uses.contains(other)).count())
        .sum())
}

/// Returns the length of each function in lines, from its signature to the closing brace with the same indentation.
fn function_lengths(text: &str) -> Vec<usize> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = [
            "fn ",
            "pub fn ",
            "async fn ",
            "pub async fn ",
            "pub(crate) fn ",
            "pub(crate) async fn ",
            "pub(super) fn ",
            "const fn ",
            "pub const fn ",
        ]
        .iter()
        .any(|start| code.starts_with(start));
        if !is_function {
            continue;
        }
        let closing = format!("{}}}", &line[..line.len() - code.len()]);
        if let Some(length) = lines[number..].iter().position(|line| *line == closing) {
            found.push(length + 1);
        }
    }
    found
}

/// Returns the text of each block of `///` lines.
fn doc_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = String::new();
    for line in text.lines().chain([""]) {
        match line.trim_start().strip_prefix("///") {
            Some(words) => block += words,
            None if !block.is_empty() => blocks.push(std::mem::take(&mut block)),
            None => {}
        }
    }
    blocks
}

fn lines(files: &[PathBuf]) -> anyhow::Result<usize> {
    files.iter().map(|file| Ok(read(file)?.lines().count())).sum()
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}
