use std::fmt::Write;

use domain::ItemId;
use domain::inbox::Counts;
use serde_json::{Value, json};
use store::recovery::shadow::{ChangedItem, Comparison, Difference, Items};

pub(crate) fn as_json(shown: &[Difference]) -> Value {
    let counts = |Counts { total, unread, unseen, hidden }: &Counts| json!({"total": total, "unread": unread, "unseen": unseen, "hidden": hidden});
    let ids = |items: &Items<_>| json!({"count": items.count, "first": items.first});
    shown
        .iter()
        .map(|difference| {
            let changed: Vec<Value> = difference
                .changed
                .first
                .iter()
                .map(|ChangedItem { id, columns }| json!({"id": id, "columns": columns}))
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

pub(crate) fn describe(comparison: &Comparison) -> String {
    let mut text = String::new();
    for difference in &comparison.shown {
        let mut parts = Vec::new();
        if difference.missing.count > 0 {
            parts.push(format!("items missing: {}", named(&difference.missing, ItemId::to_string)));
        }
        if difference.unexpected.count > 0 {
            parts.push(format!(
                "items that are not in the log: {}",
                named(&difference.unexpected, ItemId::to_string)
            ));
        }
        if difference.changed.count > 0 {
            let changed = |changed: &ChangedItem| format!("{} ({})", changed.id, changed.columns.join(", "));
            parts.push(format!("items changed: {}", named(&difference.changed, changed)));
        }
        if difference.kept != difference.recounted || difference.kept != difference.replayed {
            let counts = |counts: &Counts| {
                format!("{}/{}/{}/{}", counts.total, counts.unread, counts.unseen, counts.hidden)
            };
            parts.push(format!(
                "counters (total/unread/unseen/hidden) are {}, a recount gives {}, the log gives {}",
                counts(&difference.kept),
                counts(&difference.recounted),
                counts(&difference.replayed)
            ));
        }
        // Writing to a String cannot fail.
        writeln!(text, "  app {} user {}: {}", difference.app, difference.user, parts.join("; ")).ok();
    }
    let more = comparison.differing - comparison.shown.len() as u64;
    if more > 0 {
        writeln!(text, "  and {more} more users; --show N lists more").ok();
    }
    text
}

fn named<T>(items: &Items<T>, name: impl Fn(&T) -> String) -> String {
    let names = items.first.iter().map(name).collect::<Vec<_>>().join(", ");
    match items.count - items.first.len() as u64 {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
