use domain::AppId;

use crate::waiting::database;
use crate::{OperationError, Operations};

/// Identifiers that are read on either side of the wanted one.
const NEIGHBOURS: i64 = 10;
const MOST: usize = 3;

/// Returns identifiers that differ from `wanted` by a few letters only, the nearest first. They are read by the index of identifiers, so
/// they begin like `wanted`.
pub(super) async fn identifiers(
    operations: &Operations,
    app: AppId,
    wanted: &str,
) -> Result<Vec<String>, OperationError> {
    let directory = operations.store.directory();
    let mut found = database(directory.neighbouring_identifiers(app, wanted, NEIGHBOURS)).await?;
    let lower = wanted.to_lowercase();
    if lower != wanted {
        found.extend(database(directory.known_identifiers(app, &[&lower])).await?);
    }
    found.retain(|identifier| is_similar(identifier, wanted));
    found.sort_by_key(|identifier| distance(identifier, wanted));
    found.dedup();
    found.truncate(MOST);
    Ok(found)
}

fn is_similar(one: &str, other: &str) -> bool {
    let starts = one.starts_with(other) || other.starts_with(one);
    let most = 1 + one.chars().count().min(other.chars().count()) / 4;
    starts || distance(one, other) <= most
}

/// Number of letters to insert, delete or replace, whatever their case.
fn distance(one: &str, other: &str) -> usize {
    let [one, other] = [one, other].map(|text| text.to_lowercase().chars().take(64).collect::<Vec<_>>());
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (b, cell) in other.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changed_letters() {
        let cases = [
            ("ada", "ada", 0),
            ("ada", "Ada", 0),
            ("ada", "adam", 1),
            ("kitten", "sitting", 3),
            ("", "ab", 2),
        ];
        for (one, other, expected) in cases {
            assert_eq!((distance(one, other), distance(other, one)), (expected, expected), "{one} {other}");
        }
        assert!(is_similar("ada", "adda") && is_similar("customer-17", "customer-71"));
        assert!(!is_similar("ada", "bob"));
    }
}
