//! Shortening of a message to a size limit. Only the body is cut, because phones show only its first lines.

use domain::problem::excerpt;

const ELLIPSIS: &str = "…";

/// Cuts `body` as little as possible, so that `size(body)` is at most `most` bytes. A cut body ends with an ellipsis.
/// Returns None if even an empty body exceeds the limit.
pub(crate) fn fitting(body: String, most: usize, size: impl Fn(&str) -> usize) -> Option<String> {
    if size(&body) <= most {
        return Some(body);
    }
    // JSON escapes some characters, so the size cannot be computed from the length: search for the longest body that fits.
    // Escaping never shortens a text, so a body of more than `most` bytes cannot fit.
    let (mut fits, mut exceeds) = (0, body.len().min(most) + 1);
    while exceeds - fits > 1 {
        let middle = usize::midpoint(fits, exceeds);
        if size(&beginning(&body, middle)) <= most { fits = middle } else { exceeds = middle }
    }
    let body = beginning(&body, fits);
    (size(&body) <= most).then_some(body)
}

fn beginning(body: &str, most: usize) -> String {
    if most <= ELLIPSIS.len() { String::new() } else { excerpt(body.to_owned(), most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_cut_only_as_far_as_necessary() {
        let size = |body: &str| 10 + serde_json::json!(body).to_string().len();
        assert_eq!(fitting("short".to_owned(), 17, size).as_deref(), Some("short"));
        let cut = fitting("é".repeat(50), 40, size).unwrap();
        assert!(cut.ends_with('…') && size(&cut) <= 40 && size(&cut) > 30, "{cut}");
        let quotes = fitting("\"".repeat(50), 40, size).unwrap();
        assert!(size(&quotes) <= 40, "{quotes}");
        assert_eq!(fitting("body".to_owned(), 12, size).as_deref(), Some(""));
        assert_eq!(fitting("body".to_owned(), 5, size), None);
    }
}
