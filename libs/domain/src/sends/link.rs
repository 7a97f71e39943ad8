//! Links that a notification may contain. Clients open links unchecked, so a link must not run a script or read a file.

use std::borrow::Cow;

use url::Url;

/// Schemes that clients must never open: they run scripts, embed content in the URL, or address local resources.
const FORBIDDEN: [&str; 8] =
    ["about", "blob", "data", "file", "filesystem", "javascript", "vbscript", "view-source"];
/// Scheme of an inline image, and the text that must follow the colon.
const IMAGE: (&str, &str) = ("data", "image/");

/// Returns true if a text may be a link: relative, or with the scheme http, https, mailto or a scheme of the app.
#[must_use]
pub fn is_link(text: &str) -> bool {
    !FORBIDDEN.contains(&split(text).0.as_str())
}

/// Returns true if a text may be an icon: a link, a plain name, or `data:image/…`.
#[must_use]
pub fn is_icon(text: &str) -> bool {
    let (scheme, rest) = split(text);
    let is_image = || rest.get(..IMAGE.1.len()).is_some_and(|start| start.eq_ignore_ascii_case(IMAGE.1));
    is_link(text) || (scheme == IMAGE.0 && is_image())
}

/// Returns the link if every mail program and phone can open it: an absolute `http` or `https` URL, percent-encoded if it has characters
/// that texts of GSM 7 bit or quoted attributes lack.
#[must_use]
pub fn web_link(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    let url =
        Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"'<>`\\".contains(&byte);
    if text.contains("://") && text.bytes().all(is_plain) {
        return Some(Cow::Borrowed(text));
    }
    Some(Cow::Owned(url.as_str().replace('`', "%60").replace('\'', "%27").replace('\\', "%5C")))
}

/// Splits a text at its first colon into the lower-case scheme and the rest. Browsers skip white space and control characters
/// before a scheme, and tabs and line breaks within it (WHATWG URL, section 4.4). Clients on other platforms may skip more, so
/// this function ignores all white space and control characters in the scheme.
fn split(text: &str) -> (String, &str) {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    let is_skipped = |c: &char| c.is_whitespace() || c.is_control() || *c == '\u{feff}';
    (scheme.chars().filter(|c| !is_skipped(c)).map(|c| c.to_ascii_lowercase()).collect(), rest)
}
