//! Tests of the checks: a valid record passes all of them, and each falsified record fails the check for its defect.

mod falsified_records;
mod valid_record;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::check;
use crate::record::Record;
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
    assert_eq!(reason, "only 0 of 120 sends of small apps were undisturbed");
    assert!(!check::failures(&record).contains_key(check::SMALL_APPS_DO_NOT_WAIT));
    let applying: Vec<_> = check::applying(&record).map(|(name, _)| *name).collect();
    assert_eq!(applying.len(), check::CHECKS.len() - 1);
    assert!(!applying.contains(&check::SMALL_APPS_DO_NOT_WAIT));
}

/// A record of a machine that became slower during the run.
fn slowed() -> Record {
    let mut record = valid();
    record.conditions.processors = (0.9, 0.3);
    record
}

#[test]
fn on_a_machine_that_became_slower_late_work_is_undecided() {
    let mut record = slowed();
    record.waiting.took = Duration::from_secs(121);
    record.visible.iter_mut().for_each(|visible| visible.visible_at += 5_000);
    let results = check::results(&record, &BTreeMap::new());
    assert!(results.broken.is_empty(), "{}", describe(&results.broken));
    let slower = "90 % of two processors were free before the load, only 30 % after it";
    let late = format!("all work was done after 121.0s; the limit is 120.0s, but {slower}");
    let waited = format!("the 99th percentile of 120 sends is 7180 ms, but {slower}");
    let expected = [(check::ALL_WORK_IS_DONE, late), (check::SMALL_APPS_DO_NOT_WAIT, waited)];
    assert_eq!(results.undecided, expected.into());
    assert_eq!(results.held.len(), check::CHECKS.len() - 2);
}

#[test]
fn stretched_time_limits_hold_on_a_slow_machine() {
    let mut record = valid();
    record.conditions.stretch = 2.0;
    record.waiting.took = Duration::from_secs(239);
    record.visible.iter_mut().for_each(|visible| visible.visible_at += 5_000);
    let failures = check::failures(&record);
    assert!(failures.is_empty(), "{}", describe(&failures));
    record.waiting.took = Duration::from_secs(241);
    assert!(check::failures(&record).contains_key(check::ALL_WORK_IS_DONE));
}

#[test]
fn no_slowness_leaves_a_lost_or_repeated_send_undecided() {
    for (number, (name, falsify)) in FALSIFIED.iter().enumerate() {
        let mut record = slowed();
        record.conditions.stretch = 3.0;
        let stall = Fault { what: "the machine stalled".to_owned(), from: 0, until: 9_000 };
        record.conditions.stalls.push(stall);
        falsify(&mut record);
        let is_about_time = [check::ALL_WORK_IS_DONE, check::SMALL_APPS_DO_NOT_WAIT].contains(name);
        let failures = check::failures(&record);
        assert!(is_about_time || failures.contains_key(name), "{number}: {name}: {failures:?}");
    }
    let mut unfinished = slowed();
    unfinished.waiting.left = Some("1 timers".to_owned());
    assert!(check::failures(&unfinished).contains_key(check::ALL_WORK_IS_DONE));
}

#[test]
fn only_a_long_stall_explains_a_second_acceptance() {
    let mut record = valid();
    record.faults.clear();
    let stall = |until| Fault { what: "the machine stalled".to_owned(), from: 20_500, until };
    record.conditions.stalls = vec![stall(21_400)];
    assert!(check::failures(&record).contains_key("nothing is accepted twice unless a fault explains it"));
    record.conditions.stalls = vec![stall(21_500)];
    assert!(check::failures(&record).is_empty());
}

#[test]
fn a_pause_between_claim_and_call_explains_a_late_call() {
    let explained = |from, until| {
        let mut record = valid();
        record.faults = vec![Fault { what: "pause email-1".to_owned(), from, until }];
        // The resumed worker and the holder of the next claim call at the same time.
        record.accepted[0].at = record.accepted[1].at;
        !check::failures(&record).contains_key("nothing is accepted twice unless a fault explains it")
    };
    // The attempt is claimed at 20,400 and at 23,595 ms, and its message is accepted twice at 23,610 ms. The lease is 3,000 ms.
    assert!(explained(20_410, 23_600));
    assert!(!explained(20_000, 20_390), "the worker was resumed before it claimed the delivery");
    assert!(!explained(23_401, 23_600), "the worker had the whole lease for its call");
}

#[test]
fn a_check_that_holds_with_too_little_data_is_undecided() {
    let too_few = [(check::NO_LIST_CONTRADICTS, "changes: 2 of 3".to_owned())].into();
    let results = check::results(&valid(), &too_few);
    assert_eq!(results.undecided, too_few);
    assert!(!results.held.contains(&check::NO_LIST_CONTRADICTS) && results.broken.is_empty());
}

#[test]
fn the_page_of_guarantees_names_every_check() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guarantees.md");
    let page = std::fs::read_to_string(path).unwrap();
    let unnamed =
        check::CHECKS.iter().map(|(name, _)| format!("| {name} |")).filter(|cell| !page.contains(cell));
    assert_eq!(unnamed.collect::<Vec<_>>(), Vec::<String>::new());
}
