//! Checks that read the record of a run.

use std::collections::BTreeMap;

/// Maximum number of violations to show per check.
const SHOWN: usize = 5;

/// A check, which returns its violations, one line each.
pub type Check<Record> = fn(&Record) -> Vec<String>;

/// Violations by the name of the check.
pub type Failures = BTreeMap<&'static str, Vec<String>>;

/// Runs the checks, and returns the violations of the checks that fail.
pub fn failures<'c, Record: 'c>(
    checks: impl IntoIterator<Item = &'c (&'static str, Check<Record>)>,
    record: &Record,
) -> Failures {
    let results = checks.into_iter().map(|(name, check)| (*name, check(record)));
    results.filter(|(_, violations)| !violations.is_empty()).collect()
}

/// Describes the first violations of each failed check.
pub fn describe(failures: &Failures) -> String {
    let mut text = String::new();
    for (name, violations) in failures {
        text += &format!("\n{name}: {} violations, such as:\n", violations.len());
        for violation in violations.iter().take(SHOWN) {
            text += &format!("  {violation}\n");
        }
    }
    text
}
