//! How inboxes differ from their replays, for people and for scripts.

use std::fmt::Write;

use domain::ItemId;
use domain::inbox::Counts;
use serde_json::{Value, json};
use store::recovery::shadow::{Changed, Comparison, Difference, Items};

/// Differences as scripts get them.
pub(crate) fn as_json(shown: &[Difference]) -> Value {
    let counts =
        |counts: &Counts| json!({"total": counts.total, "unread": counts.unread, "unseen": counts.unseen});
    let ids = |items: &Items<_>| json!({"count": items.count, "first": items.first});
    shown
        .iter()
        .map(|difference| {
            let changed: Vec<Value> = difference
                .changed
                .first
                .iter()
                .map(|Changed { id, columns }| json!({"id": id, "columns": columns}))
                .collect();
            json!({
                "app": difference.app,
                "user": difference.user,
                "missing": ids(&difference.missing),
                "unexpected": ids(&difference.unexpected),
                "changed": {"count": difference.changed.count, "first": changed},
                "counters": {
                    "kept": counts(&difference.kept),
                    "recounted": counts(&difference.recounted),
                    "replayed": counts(&difference.replayed),
                },
            })
        })
        .collect()
}

/// Differences as people get them: a line for each of the users that are shown.
pub(crate) fn describe(comparison: &Comparison) -> String {
    let mut text = String::new();
    for difference in &comparison.shown {
        let mut parts = Vec::new();
        if difference.missing.count > 0 {
            parts.push(format!("items missing: {}", named(&difference.missing, ItemId::to_string)));
        }
        if difference.unexpected.count > 0 {
            parts.push(format!(
                "items that the log does not have: {}",
                named(&difference.unexpected, ItemId::to_string)
            ));
        }
        if difference.changed.count > 0 {
            let changed = |changed: &Changed| format!("{} ({})", changed.id, changed.columns.join(", "));
            parts.push(format!("items changed: {}", named(&difference.changed, changed)));
        }
        if difference.kept != difference.recounted || difference.kept != difference.replayed {
            let counts = |counts: &Counts| format!("{}/{}/{}", counts.total, counts.unread, counts.unseen);
            parts.push(format!(
                "counters (total/unread/unseen) are {}, a recount says {}, the log {}",
                counts(&difference.kept),
                counts(&difference.recounted),
                counts(&difference.replayed)
            ));
        }
        // Writing to a text does not fail.
        writeln!(text, "  app {} user {}: {}", difference.app, difference.user, parts.join("; ")).ok();
    }
    let untold = comparison.differing - comparison.shown.len() as u64;
    if untold > 0 {
        writeln!(text, "  and {untold} more; --show N tells of more").ok();
    }
    text
}

/// The first items, and how many there are beside them.
fn named<T>(items: &Items<T>, name: impl Fn(&T) -> String) -> String {
    let names = items.first.iter().map(name).collect::<Vec<_>>().join(", ");
    match items.count - items.first.len() as u64 {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
