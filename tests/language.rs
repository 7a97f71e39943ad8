//! Rules of `docs/style.md` that a program can check.

#[path = "../xtask/src/prose.rs"]
mod prose;

use std::path::PathBuf;

use self::prose::{Prose, doc_blocks};
use crate::{files, pages, read, relative, report, root};

/// The percentage of doc comments that begin with a headless clause must be below this.
const HEADLESS_PERCENT: usize = 4;
/// Maximum number of words of doc comments per line of code. It only falls.
const MOST_WORDS: f64 = 1.1;
/// Words to avoid, from the right column of the table in `docs/style.md`. Words that have another meaning in this project are
/// left out.
const STILTED: [&str; 14] = [
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "whoever",
    "whosever",
    "is told",
    "are told",
    "be had",
    "anew",
    "set aside",
    "put off",
    "give back",
    "hand back",
];

/// `docs/style.md`: a doc comment begins with a noun or a verb.
#[test]
fn few_doc_comments_begin_with_a_headless_clause() {
    let headless = ["What", "Who", "Whether", "How", "Where"];
    let blocks: Vec<(String, String)> = production()
        .iter()
        .flat_map(|path| doc_blocks(&read(path)).into_iter().map(|block| (relative(path), block)))
        .collect();
    let found: Vec<_> = blocks
        .iter()
        .filter(|(_, block)| headless.contains(&block.split_whitespace().next().unwrap_or_default()))
        .map(|(path, block)| format!("{path}: {}", block.trim()))
        .collect();
    let percent = found.len() * 100 / blocks.len();
    assert!(percent < HEADLESS_PERCENT, "{percent} % of {} doc comments\n{}", blocks.len(), found.join("\n"));
}

/// Doc comments stay worth reading only if there are few of them.
#[test]
fn doc_comments_have_few_words_per_line_of_code() {
    let mut prose = Prose::default();
    for path in production() {
        prose.add(&read(&path));
    }
    let words = prose.words_per_line();
    assert!(words <= MOST_WORDS, "{words:.3} words of doc comments per line of code, at most {MOST_WORDS}");
    assert!(words > MOST_WORDS - 0.1, "lower MOST_WORDS to {words:.3}");
}

/// `docs/style.md`: logs, errors, help, OpenAPI and documentation do not use the words of [`STILTED`].
#[test]
fn texts_avoid_the_words_that_the_style_page_forbids() {
    let mut problems = Vec::new();
    for page in
        pages().iter().filter(|page| !page.ends_with("docs/style.md") && !page.ends_with("docs/logging.md"))
    {
        for (number, line) in read(page).lines().enumerate() {
            problems.extend(
                stilted(line).into_iter().map(|word| format!("{}:{}: {word}", relative(page), number + 1)),
            );
        }
    }
    for path in production() {
        let text = read(&path);
        for (number, line) in text.lines().enumerate() {
            let is_read = line.trim_start().starts_with("///") || !line.trim_start().starts_with("//");
            let words = if is_read { line } else { "" };
            problems.extend(
                stilted(words).into_iter().map(|word| format!("{}:{}: {word}", relative(&path), number + 1)),
            );
        }
    }
    report(&problems);
}

/// Words of [`STILTED`] in a line, except quoted words, which are names (the account `nobody`).
fn stilted(line: &str) -> Vec<&'static str> {
    let line = line.to_lowercase();
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let has = |words: &str| {
        line.match_indices(words).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + words.len()..]);
            !before.ends_with(is_letter) && !before.ends_with(['`', '"']) && !after.starts_with(is_letter)
        })
    };
    STILTED.into_iter().filter(|words| has(words)).collect()
}

/// Lists the Rust files of all crates, except the files in `tests` folders.
fn production() -> Vec<PathBuf> {
    let folders = ["libs", "services", "xtask"].iter().flat_map(|folder| files(&root().join(folder), "rs"));
    folders
        .filter(|path| !relative(path).split('/').any(|part| part == "tests" || part == "tests.rs"))
        .collect()
}
