//! The tests that `docs/security.md` names as evidence.

use crate::{read, report, root, sources};

/// The tables of docs/security.md name tests as evidence. Names of metrics look like names of tests, and are skipped.
#[test]
fn every_test_that_the_security_page_names_exists() {
    let sources: Vec<String> = sources().iter().map(|path| read(path)).collect();
    let page = read(&root().join("docs/security.md"));
    let quoted = page.split('`').skip(1).step_by(2);
    let is_test = |name: &&str| {
        !name.starts_with("tidings_")
            && name.len() > 20
            && name.matches('_').count() >= 3
            && name
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    let names: Vec<_> = quoted.filter(is_test).collect();
    assert!(names.len() > 60, "docs/security.md names only {} tests", names.len());
    let exists = |name: &str| sources.iter().any(|source| source.contains(&format!("fn {name}(")));
    let problems = names
        .iter()
        .filter(|name| !exists(name))
        .map(|name| format!("docs/security.md: the test {name} does not exist"));
    report(&problems.collect::<Vec<_>>());
}

/// Each row of the OWASP table is held by functions with a test attribute.
#[test]
fn every_row_of_the_owasp_table_names_tests() {
    let sources: Vec<String> = sources().iter().map(|path| read(path)).collect();
    let is_test = |name: &str| {
        sources.iter().any(|source| {
            source.split_once(&format!("fn {name}(")).is_some_and(|(before, _)| {
                let attributes = before.rsplit(['}', ';']).next().unwrap_or(before);
                attributes.contains("#[test]") || attributes.contains("#[tokio::test")
            })
        })
    };
    let page = read(&root().join("docs/security.md"));
    let mut problems = Vec::new();
    for number in 1..=10 {
        let row = page.lines().find(|line| line.starts_with(&format!("| API{number} ")));
        let tests = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next()).unwrap_or_default();
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            problems.push(format!("docs/security.md: API{number} names no test"));
        }
        let missing = names.into_iter().filter(|name| !is_test(name));
        problems.extend(missing.map(|name| format!("docs/security.md: API{number}: {name} is no test")));
    }
    report(&problems);
}
