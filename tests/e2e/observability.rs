//! Dashboards and alert rules name metrics that exist, and every alert has a runbook entry and a test.

use std::collections::BTreeSet;
use std::path::Path;

const RULES: &str = include_str!("../../deploy/observability/rules/tidings.yml");
const RULE_TESTS: &str = include_str!("../../deploy/observability/tests/tidings.yml");
const RUNBOOK: &str = include_str!("../../docs/operating.md");
const METRICS: &str = include_str!("../../libs/service-kit/src/metrics.rs");
/// Metrics of the process, which a library provides. The tests of `healthcheck.rs` check that they exist.
const OF_PROCESSES: [&str; 4] = [
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
];

/// Lists the names of metrics in a text, without the suffixes of histograms.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| {
        (word.starts_with("tidings_") || word.starts_with("process_")) && !word.ends_with('_')
    });
    ours.map(|name| ["_bucket", "_count", "_sum"].iter().fold(name, |name, end| name.trim_end_matches(end)))
        .collect()
}

fn dashboards() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/observability/dashboards");
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn rules_and_dashboards_name_metrics_that_exist() {
    let known = metrics(METRICS);
    let dashboards = dashboards();
    assert!(dashboards.len() >= 5);
    let expressions: Vec<String> = dashboards
        .iter()
        .flat_map(|text| {
            let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
            let panels = dashboard["panels"].as_array().unwrap().clone();
            panels.into_iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone())
        })
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    for text in expressions.iter().map(String::as_str).chain([RULES]) {
        for metric in metrics(text) {
            assert!(
                known.contains(metric) || OF_PROCESSES.contains(&metric),
                "{metric} does not exist: {text}"
            );
        }
    }
    let shown: BTreeSet<_> = expressions.iter().flat_map(|text| metrics(text)).collect();
    for metric in known {
        assert!(shown.contains(metric), "no dashboard shows {metric}");
    }
}

#[test]
fn every_alert_has_a_runbook_entry_and_a_test() {
    let alerts: Vec<_> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        assert!(RUNBOOK.contains(&format!("\n### {alert}\n")), "docs/operating.md has no section {alert}");
        let anchor = format!("runbook: docs/operating.md#{}", alert.to_lowercase());
        assert!(RULES.contains(&anchor), "the alert {alert} does not link to its runbook entry");
        assert!(RULE_TESTS.contains(&format!("- name: {alert}\n")), "{alert} has no test");
    }
}
