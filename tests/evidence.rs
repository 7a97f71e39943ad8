//! The tests that pages of the documentation name as evidence.

use crate::{read, report, root, sources};

/// Sources of the workspace, in which tests are found by their names.
struct Tests(Vec<String>);

impl Tests {
    fn of_the_workspace() -> Tests {
        Tests(sources().iter().map(|path| read(path)).collect())
    }

    /// Returns true if a function with this name has a test attribute or is inside a macro that adds one, such as `proptest!`.
    fn contain(&self, name: &str) -> bool {
        self.0.iter().any(|source| {
            source.split_once(&format!("fn {name}(")).is_some_and(|(before, _)| {
                let attributes = before.rsplit(['}', ';']).next().unwrap_or(before);
                attributes.contains("#[test]") || attributes.contains("#[tokio::test")
            })
        })
    }

    /// Describes the tests that a page names and that do not exist.
    fn missing<'a>(&self, page: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let missing = names.into_iter().filter(|name| !self.contain(name));
        missing.map(|name| format!("{page}: {name} is no test")).collect()
    }
}

/// Returns the quoted names of tests in a text. Names of metrics look like names of tests, and are skipped.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    let is_letter = |letter| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    let is_long = |name: &str| name.len() > 20 && name.matches('_').count() >= 3;
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(move |name| is_long(name) && !name.starts_with("tidings_") && name.chars().all(is_letter))
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let page = read(&root().join("docs/security.md"));
    let names: Vec<_> = named_tests(&page).collect();
    assert!(names.len() > 60, "docs/security.md names only {} tests", names.len());
    report(&Tests::of_the_workspace().missing("docs/security.md", names));
}

#[test]
fn every_row_of_the_owasp_table_names_tests() {
    let (page, tests) = (read(&root().join("docs/security.md")), Tests::of_the_workspace());
    let mut problems = Vec::new();
    for number in 1..=10 {
        let row = page.lines().find(|line| line.starts_with(&format!("| API{number} ")));
        let cell = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next()).unwrap_or_default();
        let names: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            problems.push(format!("docs/security.md: API{number} names no test"));
        }
        problems.extend(tests.missing(&format!("docs/security.md: API{number}"), names));
    }
    report(&problems);
}

#[test]
fn every_reader_on_the_page_of_limits_names_tests() {
    let page = read(&root().join("docs/limits.md"));
    let section = page.split("\n## Readers\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<_> =
        section.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| test |")).collect();
    assert!(rows.len() > 20, "docs/limits.md has only {} readers", rows.len());
    let without = rows.iter().filter(|row| named_tests(row).next().is_none());
    let mut problems: Vec<_> = without.map(|row| format!("docs/limits.md names no test: {row}")).collect();
    problems.extend(Tests::of_the_workspace().missing("docs/limits.md", named_tests(section)));
    report(&problems);
}

#[test]
fn every_promise_names_its_ring() {
    let page = read(&root().join("docs/guarantees.md"));
    let (mut rows, mut problems) = (0, Vec::new());
    for section in ["The promises", "Other promises"] {
        let text = page.split(&format!("\n## {section}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        for row in text.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| ring |")) {
            rows += 1;
            if !["| CI |", "| both |"].iter().any(|ring| row.ends_with(ring)) {
                problems.push(format!("docs/guarantees.md: no ring after the promise {row}"));
            }
        }
    }
    assert!(rows > 40, "docs/guarantees.md has only {rows} promises");
    report(&problems);
}
