//! Anchors of headings.

use std::collections::BTreeMap;

/// The anchors of one page, by the rules of GitHub, so that a link works there and here.
#[derive(Default)]
pub(crate) struct Slugs(BTreeMap<String, usize>);

impl Slugs {
    /// Returns the anchor of the next heading. A repeated heading gets a number.
    pub(crate) fn next(&mut self, heading: &str) -> String {
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let slug: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let count = self.0.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::Slugs;

    #[test]
    fn anchors_are_those_of_github() {
        let mut slugs = Slugs::default();
        assert_eq!(slugs.next("Stop, start and help: `STOP`"), "stop-start-and-help-stop");
        assert_eq!(slugs.next("A full log"), "a-full-log");
        assert_eq!(slugs.next("A full log"), "a-full-log-1");
    }
}
