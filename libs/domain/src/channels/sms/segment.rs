//! Splits a text into SMS segments (3GPP TS 23.040, section 9.2.3.24).

use super::gsm7::{self, Septets};

/// Septets in a message that fits into one segment.
const GSM7_ALONE: usize = 160;
/// Septets in each segment of a longer message. Six octets of each segment hold a header with the segment's number.
const GSM7_PART: usize = 153;
/// UTF-16 code units in a message that fits into one segment.
const UCS2_ALONE: usize = 70;
/// UTF-16 code units in each segment of a longer message.
const UCS2_PART: usize = 67;
/// The header stores this number in one octet.
pub const MOST_SEGMENTS: usize = 255;
/// Maximum number of segments of an SMS that ends with the link of its send. All providers accept it.
pub const MOST_SEGMENTS_WITH_LINK: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    Gsm7,
    /// UCS-2. In practice this is UTF-16 in big-endian order, which every phone reads.
    Ucs2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentedText<'a> {
    pub alphabet: Alphabet,
    /// Never empty.
    pub parts: Vec<&'a str>,
}

impl<'a> SegmentedText<'a> {
    /// Splits a text, in GSM 7 bit if that alphabet contains all its characters, otherwise in UCS-2.
    #[must_use]
    pub fn of(text: &'a str) -> SegmentedText<'a> {
        let is_gsm7 = text.chars().all(|character| Septets::of(character).is_some());
        let alphabet = if is_gsm7 { Alphabet::Gsm7 } else { Alphabet::Ucs2 };
        SegmentedText::written_in(alphabet, text)
    }

    #[must_use]
    pub fn in_ucs2(text: &'a str) -> SegmentedText<'a> {
        SegmentedText::written_in(Alphabet::Ucs2, text)
    }

    fn written_in(alphabet: Alphabet, text: &'a str) -> SegmentedText<'a> {
        let (alone, part) = match alphabet {
            Alphabet::Gsm7 => (GSM7_ALONE, GSM7_PART),
            Alphabet::Ucs2 => (UCS2_ALONE, UCS2_PART),
        };
        let length = |character| units(alphabet, character);
        let fits_alone = text.chars().map(length).sum::<usize>() <= alone;
        let parts = if fits_alone { vec![text] } else { cut(text, part, length) };
        SegmentedText { alphabet, parts }
    }

    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }
}

impl Alphabet {
    /// Encodes a text for SMPP: one septet per octet, or UTF-16 in big-endian order. None if the alphabet lacks a character.
    #[must_use]
    pub fn encode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Alphabet::Gsm7 => gsm7::encode(text),
            Alphabet::Ucs2 => Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        }
    }
}

fn units(alphabet: Alphabet, character: char) -> usize {
    match alphabet {
        Alphabet::Gsm7 => Septets::of(character).map_or(1, Septets::count),
        Alphabet::Ucs2 => character.len_utf16(),
    }
}

/// Cuts into parts of at most `room` units, counted by `length`, and never within a character of two units (an escape and its code, or a
/// surrogate pair).
fn cut(text: &str, room: usize, length: impl Fn(char) -> usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut taken = 0;
        let end = rest.char_indices().find(|(_, character)| {
            taken += length(*character);
            taken > room
        });
        let (part, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        parts.push(part);
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> (Alphabet, Vec<usize>) {
        let cut = SegmentedText::of(text);
        assert_eq!(cut.parts.concat(), text, "nothing is lost");
        (cut.alphabet, cut.parts.iter().map(|part| part.chars().count()).collect())
    }

    #[test]
    fn septets_are_counted() {
        assert_eq!(lengths(""), (Alphabet::Gsm7, vec![0]));
        assert_eq!(lengths(&"a".repeat(160)), (Alphabet::Gsm7, vec![160]));
        assert_eq!(lengths(&"a".repeat(161)), (Alphabet::Gsm7, vec![153, 8]));
        assert_eq!(lengths(&"a".repeat(306)), (Alphabet::Gsm7, vec![153, 153]));
        assert_eq!(lengths(&"a".repeat(307)), (Alphabet::Gsm7, vec![153, 153, 1]));
    }

    #[test]
    fn characters_of_the_extension_table_count_two_and_are_not_split() {
        assert_eq!(lengths(&"€".repeat(80)), (Alphabet::Gsm7, vec![80]));
        assert_eq!(lengths(&"€".repeat(81)), (Alphabet::Gsm7, vec![76, 5]));
        assert_eq!(
            lengths(&format!("{}€{}", "a".repeat(152), "b".repeat(10))),
            (Alphabet::Gsm7, vec![152, 11])
        );
    }

    #[test]
    fn surrogate_pairs_are_not_split() {
        assert_eq!(lengths(&"Ж".repeat(70)), (Alphabet::Ucs2, vec![70]));
        assert_eq!(lengths(&"Ж".repeat(71)), (Alphabet::Ucs2, vec![67, 4]));
        assert_eq!(lengths(&"😀".repeat(35)), (Alphabet::Ucs2, vec![35]));
        assert_eq!(lengths(&"😀".repeat(36)), (Alphabet::Ucs2, vec![33, 3]));
        assert_eq!(lengths(&format!("{}ç", "a".repeat(69))), (Alphabet::Ucs2, vec![70]));
    }

    #[test]
    fn any_text_can_be_encoded_as_ucs2() {
        assert_eq!(SegmentedText::in_ucs2(&"a".repeat(71)).count(), 2);
        assert_eq!(Alphabet::Ucs2.encode("a😀"), Some(vec![0, b'a', 0xd8, 0x3d, 0xde, 0x00]));
        assert_eq!(Alphabet::Gsm7.encode("ç"), None);
    }
}
