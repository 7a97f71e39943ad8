//! A text that was copied with replacements, and the places from which its parts come.

use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Rewritten {
    pub(super) text: String,
    /// Beginnings of the parts in the text and in its origin, ascending.
    parts: Vec<(usize, usize)>,
}

impl Rewritten {
    /// Copies a part of the origin.
    pub(super) fn keep(&mut self, origin: &str, part: Range<usize>) {
        self.parts.push((self.text.len(), part.start));
        self.text.push_str(origin.get(part).unwrap_or_default());
    }

    /// Appends a text in place of what begins at `origin`.
    pub(super) fn replace(&mut self, with: &str, origin: usize) {
        self.parts.push((self.text.len(), origin));
        self.text.push_str(with);
    }

    /// Returns the place in the origin; the beginning of the part if it was replaced by a shorter one.
    pub(super) fn origin(&self, at: usize) -> usize {
        let next = self.parts.partition_point(|(begin, _)| *begin <= at);
        let last = next.checked_sub(1).and_then(|last| self.parts.get(last));
        last.map_or(at, |(begin, origin)| origin + (at - begin))
    }
}
