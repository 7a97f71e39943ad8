//! References of an HTML email to files of the send: URLs with the scheme `cid` (RFC 2392).

use crate::content::Attachment;

/// Maximum number of ids that are reported.
const MOST: usize = 20;

/// Returns the ids that the HTML refers to and that no file has, in their order, without repetitions.
#[must_use]
pub fn missing(html: &str, files: &[Attachment]) -> Vec<String> {
    let mut missing = Vec::new();
    let mut rest = html;
    let mut before = None;
    while let Some((start, after)) = split_at_scheme(rest) {
        before = start.chars().next_back().or(before);
        let end = after.find(|c: char| c.is_whitespace() || "\"'<>()".contains(c)).unwrap_or(after.len());
        let (id, next) = after.split_at(end);
        let is_url = before.is_some_and(|c| c.is_whitespace() || "\"'(=".contains(c));
        let is_known = files.iter().any(|file| file.content_id.as_deref() == Some(id));
        if is_url && Attachment::is_content_id(id) && !is_known && !missing.iter().any(|known| known == id) {
            missing.push(id.to_owned());
        }
        if missing.len() == MOST {
            break;
        }
        before = Some(':');
        rest = next;
    }
    missing
}

fn split_at_scheme(text: &str) -> Option<(&str, &str)> {
    let at = text.as_bytes().windows(4).position(|bytes| bytes.eq_ignore_ascii_case(b"cid:"))?;
    Some((text.get(..at)?, text.get(at + 4..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_without_a_file_are_missing() {
        let file = Attachment { content_id: Some("logo@x".to_owned()), ..Attachment::default() };
        let html = "<img src=\"cid:logo@x\"><img src='CID:b'><div style='background:url(cid:c)'><img src=cid:d>\
            <img src=\"cid:b\"> the acid:test, cid: and <a href=\"https://x/?cid:e\">é</a>";
        assert_eq!(missing(html, &[file]), ["b", "c", "d"]);
        assert_eq!(missing("cid:", &[]), Vec::<String>::new());
    }
}
