//! What the provider took.

use std::collections::BTreeMap;
use std::sync::Arc;

use testkit::outbox::Capture;

use crate::ledger::Deliveries;

/// What was counted.
pub(crate) struct Emails {
    pub(crate) captures: usize,
    /// Deliveries for which the provider was called more than once.
    pub(crate) repeated_deliveries: usize,
}

/// Every delivery was captured, under its own Message-ID each time, and nothing else was.
pub(crate) fn agree_with(deliveries: &Deliveries, captures: &[Arc<Capture>]) -> Emails {
    let mut taken: BTreeMap<(String, String), usize> = BTreeMap::new();
    for capture in captures {
        let [to] = &capture.to[..] else {
            panic!("an email to {:?}", capture.to);
        };
        let key = (header(capture, "Subject"), to.clone());
        let delivery = deliveries.get(&key).unwrap_or_else(|| panic!("nobody sent {key:?}"));
        assert_eq!(header(capture, "Message-ID"), format!("<{delivery}@example.com>"), "{key:?}");
        *taken.entry(key).or_default() += 1;
    }
    let missing: Vec<_> = deliveries.keys().filter(|key| !taken.contains_key(*key)).take(5).collect();
    assert!(missing.is_empty(), "never captured, among others: {missing:?}");
    let repeated_deliveries = taken.values().filter(|times| **times > 1).count();
    Emails { captures: captures.len(), repeated_deliveries }
}

fn header(capture: &Capture, name: &str) -> String {
    let raw = std::str::from_utf8(&capture.raw).unwrap();
    let prefix = format!("{name}: ");
    let lines = raw.lines().take_while(|line| !line.is_empty());
    let mut found = lines.filter_map(|line| line.strip_prefix(&prefix));
    let value = found.next().unwrap_or_else(|| panic!("an email without {name}")).to_owned();
    assert!(found.next().is_none(), "two of {name}");
    value
}
