//! Shortening of texts: always between grapheme clusters, which readers see as one character (Unicode Standard Annex 29), with an ellipsis
//! at the end.

use std::fmt;

use unicode_segmentation::UnicodeSegmentation;

const ELLIPSIS: &str = "…";

/// `most` is in bytes. If not even an ellipsis fits, the result is empty.
#[must_use]
pub fn excerpt(mut text: String, most: usize) -> String {
    if text.len() > most {
        match most.checked_sub(ELLIPSIS.len()) {
            Some(room) => {
                text.truncate(boundary(&text, room));
                text.push_str(ELLIPSIS);
            }
            None => text.clear(),
        }
    }
    text
}

fn boundary(text: &str, most: usize) -> usize {
    let ends = text.grapheme_indices(true).map(|(at, cluster)| at + cluster.len());
    ends.take_while(|end| *end <= most).last().unwrap_or(0)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    pub text: String,
    /// None if the whole text fits.
    pub cut: Option<Cut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes.
    pub from: usize,
    /// Bytes, with the ellipsis.
    pub to: usize,
    /// Bytes of the whole message.
    pub limit: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { from, to, limit } = self;
        write!(
            f,
            "Tidings cut the body from {from} to {to} bytes, because messages have at most {limit} bytes"
        )
    }
}

/// Cuts `text` as little as possible, so that `size(text)` is at most `most` bytes. None if even an empty text exceeds the limit.
pub fn fitting(text: String, most: usize, size: impl Fn(&str) -> usize) -> Option<Fitted> {
    if size(&text) <= most {
        return Some(Fitted { text, cut: None });
    }
    if size("") > most {
        return None;
    }
    // JSON escapes some characters, so the size cannot be computed from the length: search for the longest text that fits.
    // Escaping never shortens a text, so a text of more than `most` bytes cannot fit.
    let (mut fits, mut exceeds) = (0, text.len().min(most) + 1);
    while exceeds - fits > 1 {
        let middle = usize::midpoint(fits, exceeds);
        if size(&excerpt(text.clone(), middle)) <= most { fits = middle } else { exceeds = middle }
    }
    let from = text.len();
    let text = excerpt(text, fits);
    let cut = Some(Cut { from, to: text.len(), limit: most });
    Some(Fitted { text, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that readers see as one character each.
    const SEEN_AS_ONE: [&str; 8] = [
        "👨‍👩‍👧‍👦",
        "🇩🇪",
        "e\u{301}",
        "👍🏽",
        "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        "நி",
        "1️⃣",
        "\r\n",
    ];

    #[test]
    fn a_text_is_cut_between_characters_as_readers_see_them() {
        for one in SEEN_AS_ONE {
            let text = one.repeat(20);
            for most in 0..=text.len() + 1 {
                let cut = excerpt(text.clone(), most);
                assert!(cut.len() <= most, "{most}: {cut}");
                let kept = cut.strip_suffix(ELLIPSIS).unwrap_or(&cut);
                assert_eq!(kept.len() % one.len(), 0, "{most}: {cut}");
                assert_eq!(
                    cut.ends_with(ELLIPSIS),
                    most < text.len() && most >= ELLIPSIS.len(),
                    "{most}: {cut}"
                );
                let room = most.saturating_sub(ELLIPSIS.len());
                assert!(most >= text.len() || kept.len() + one.len() > room, "{most}: cut too short");
            }
        }
        assert_eq!(excerpt(format!("a{}", "\u{301}".repeat(1_000)), 100), "…");
    }

    #[test]
    fn a_text_is_cut_only_as_far_as_necessary() {
        let size = |body: &str| 10 + serde_json::json!(body).to_string().len();
        let fitted = |text: &str, most| fitting(text.to_owned(), most, size);
        assert_eq!(fitted("short", 17), Some(Fitted { text: "short".to_owned(), cut: None }));
        let Fitted { text, cut } = fitted(&"é".repeat(50), 40).unwrap();
        assert!(text.ends_with('…') && size(&text) <= 40 && size(&text) > 37, "{text}");
        assert_eq!(cut, Some(Cut { from: 100, to: text.len(), limit: 40 }));
        assert!(size(&fitted(&"\"".repeat(50), 40).unwrap().text) <= 40);
        assert_eq!(fitted("body", 12).unwrap().text, "");
        assert_eq!(fitted("body", 11), None);
    }
}
