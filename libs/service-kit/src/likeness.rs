//! Likeness of names: the known name that a caller may have meant.

/// Likeness (Jaro-Winkler) from which a known name is suggested.
const LIKENESS: f64 = 0.7;
/// Longest name that is compared, in bytes. Callers choose the name, and comparing takes time that grows with its square.
const LONGEST: usize = 64;

/// Returns the likeness of two names, from 0 to 1. None if they are too unlike to be suggested for each other, or too long.
#[must_use]
pub fn likeness(name: &str, known: &str) -> Option<f64> {
    let likeness = (name.len() <= LONGEST).then(|| strsim::jaro_winkler(name, known));
    likeness.filter(|likeness| *likeness >= LIKENESS)
}

/// Returns the known name that is most like `name`. None if all are too unlike.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().filter_map(|known| Some((known, likeness(name, known)?)));
    alike.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(known, _)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_misspelt_name_has_a_nearest_one_and_an_unlike_or_long_one_has_none() {
        let known = ["limit", "cursor", "status", "recipient"];
        for (name, expected) in [
            ("limt", Some("limit")),
            ("Status", Some("status")),
            ("statuses", Some("status")),
            ("recipients", Some("recipient")),
            ("x", None),
            ("", None),
            (&"status".repeat(20), None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
