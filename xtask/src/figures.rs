use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::prose::{Prose, doc_blocks};
use crate::workspace;

/// Print figures about the size of the code and the style of its comments
///
/// Counts lines of source and tests, files on the path of a send and in its closure, links between modules of the store, and lengths
/// of functions. Also counts words of doc comments per line of code, and doc comments that are very short or begin with a headless
/// clause, such as "What is sent". `tests/architecture.rs` and `tests/language.rs` limit some of these figures.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  cargo xtask figures")]
pub(crate) struct Arguments;

const HEADLESS: [&str; 5] = ["What", "Who", "Whether", "How", "Where"];
/// Maximum words of a very short doc comment, which rarely says more than the name of its item.
const FEW_WORDS: usize = 3;

pub(crate) fn run(_: &Arguments) -> anyhow::Result<ExitCode> {
    let (source, tests) = (production()?, tests()?);
    println!("source            {:>7} lines in {} files", lines(&source)?, source.len());
    println!("tests             {:>7} lines in {} files", lines(&tests)?, tests.len());
    let page = read(&workspace().join("ARCHITECTURE.md"))?;
    let (path, closure) = (path_of_a_send(&page)?, closure_of_a_send(&page)?);
    println!("path of a send    {:>7} lines in {} files", lines(&path)?, path.len());
    println!("its closure       {:>7} lines in {} files", lines(&closure)?, closure.len());
    let modules: Vec<_> =
        source.iter().filter(|file| file.starts_with(workspace().join("libs/store/src"))).collect();
    println!("store             {:>7} files, {} links between its modules", modules.len(), arrows(&modules)?);

    let mut functions = Vec::new();
    let (mut blocks, mut headless, mut few) = (0_usize, 0_usize, 0_usize);
    let mut prose = Prose::default();
    for file in &source {
        let text = read(file)?;
        // Functions that list test data may be longer.
        if !file.starts_with(workspace().join("libs/testkit")) {
            functions.extend(function_lengths(&text));
        }
        prose.add(&text);
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
    println!(
        "                  {:>7} words, {:.2} per line of code ({})",
        prose.words,
        prose.words_per_line(),
        prose.lines
    );
    Ok(ExitCode::SUCCESS)
}

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
    file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
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
fn path_of_a_send(page: &str) -> anyhow::Result<Vec<PathBuf>> {
    let rows = section_of_a_send(page)?.lines().filter_map(|line| line.strip_prefix("| `"));
    let files = rows.filter_map(|row| row.split('`').next());
    Ok(files.map(|file| workspace().join(file)).collect())
}

/// Lists the files of the path, and those that decide, store or call on their behalf.
fn closure_of_a_send(page: &str) -> anyhow::Result<Vec<PathBuf>> {
    let quoted = section_of_a_send(page)?.split('`').skip(1).step_by(2);
    let files = quoted.filter(|quoted| quoted.starts_with("libs/") || quoted.starts_with("services/"));
    Ok(files.map(|file| workspace().join(file)).collect())
}

fn section_of_a_send(page: &str) -> anyhow::Result<&str> {
    let (_, section) =
        page.split_once("\n## The path of a send\n").context("no section `The path of a send`")?;
    Ok(section.split("\n## ").next().unwrap_or_default())
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

/// Counts the lines of code between the braces, as Clippy does for `too_many_lines`. The closing brace has the indentation of the
/// signature.
fn function_lengths(text: &str) -> Vec<usize> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| is_function(line)) {
        // The signature ends with the body's brace, with a body on the same line, or, in a trait, with a semicolon.
        let Some(start) = lines[number..].iter().position(|line| line.ends_with(['{', '}', ';'])) else {
            continue;
        };
        let closing = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        if lines[number + start].ends_with('}') {
            found.push(1);
        } else if lines[number + start].ends_with('{') {
            let body = lines[number + start + 1..].iter().take_while(|line| **line != closing);
            let is_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
            found.push(body.filter(|line| is_code(line)).count());
        }
    }
    found
}

fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let qualifier = |word: &&str| word.starts_with("pub") || ["const", "async", "unsafe"].contains(word);
    words.find(|word| !qualifier(word)) == Some("fn")
}

fn lines(files: &[PathBuf]) -> anyhow::Result<usize> {
    files.iter().map(|file| Ok(read(file)?.lines().count())).sum()
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{function_lengths, is_function};
    use crate::prose::Prose;

    #[test]
    fn a_function_without_a_body_has_no_length() {
        let text = "\
trait Kind {
    fn name(&self) -> &str;
    fn sizes(
        &self,
        of: [u8; 4],
    ) -> Vec<usize>;
}
impl Kind for Own {
    pub(crate) async fn name(&self) -> &str {
        // The comment does not count.
        NAME
    }
    const fn size() -> usize { 1 }
}
";
        assert_eq!(function_lengths(text), [1, 1]);
        assert!(!is_function("    function(fn_pointer)"));
    }

    #[test]
    fn words_of_doc_comments_are_counted_per_line_of_code() {
        let mut prose = Prose::default();
        prose.add("//! A page.\n\n/// Two words.\nfn a() {\n    // why\n}\n\n#[cfg(test)]\nmod tests {\n/// No.\n}\n");
        assert_eq!((prose.words, prose.lines), (2, 2));
        assert!((prose.words_per_line() - 1.0).abs() < f64::EPSILON);
    }
}
