//! Tests of the checks: a valid record passes all of them, and each falsified record fails the check for its defect.

mod falsified_records;
mod valid_record;

use std::collections::BTreeSet;

use crate::check;
use crate::scene::Fault;
use falsified_records::FALSIFIED;
use suite::check::describe;
use valid_record::valid;

#[test]
fn a_valid_record_passes() {
    let failures = check::failures(&valid());
    assert!(failures.is_empty(), "{}", describe(&failures));
}

#[test]
fn every_falsified_record_fails_its_check() {
    for (number, (name, falsify)) in FALSIFIED.iter().enumerate() {
        let mut record = valid();
        falsify(&mut record);
        let failures = check::failures(&record);
        assert!(failures.contains_key(name), "{number}: {name} passed; failed checks: {failures:?}");
    }
    let falsified: BTreeSet<&str> = FALSIFIED.iter().map(|(name, _)| *name).collect();
    let checks: BTreeSet<&str> = check::CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(falsified, checks);
}

#[test]
fn on_a_busy_system_only_the_check_for_idleness_fails() {
    let mut record = valid();
    record.meanwhile = 1;
    record.log.outcomes.clear();
    record.log.items.clear();
    record.log.ends.values_mut().for_each(|end| *end += 1);
    record.inboxes.values_mut().for_each(Vec::clear);
    record.accepted.clear();
    record.tables.suppressions.values_mut().for_each(|suppression| suppression.is_in_log = false);
    record.reported.values_mut().for_each(|reported| reported.deliveries.clear());
    let failures = check::failures(&record);
    assert_eq!(failures.into_keys().collect::<Vec<_>>(), ["the system was idle while it was checked"]);
}

#[test]
fn latency_is_undecided_if_faults_disturbed_all_sends() {
    let mut record = valid();
    record.visible.iter_mut().for_each(|visible| visible.visible_at += 10_000);
    record.faults.push(Fault { what: "kill postgres".to_owned(), from: 100_500, until: 101_000 });
    let undecided = check::undecided(&record);
    let reason = &undecided[check::SMALL_APPS_DO_NOT_WAIT];
    assert_eq!(reason, "only 0 of 60 sends of small apps were undisturbed");
    assert!(!check::failures(&record).contains_key(check::SMALL_APPS_DO_NOT_WAIT));
    let applying: Vec<_> = check::applying(&record).map(|(name, _)| *name).collect();
    assert_eq!(applying.len(), check::CHECKS.len() - 1);
    assert!(!applying.contains(&check::SMALL_APPS_DO_NOT_WAIT));
}

#[test]
fn the_page_of_guarantees_names_every_check() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guarantees.md");
    let page = std::fs::read_to_string(path).unwrap();
    let unnamed =
        check::CHECKS.iter().map(|(name, _)| format!("| {name} |")).filter(|cell| !page.contains(cell));
    assert_eq!(unnamed.collect::<Vec<_>>(), Vec::<String>::new());
}
