//! What a notification may link to. Clients open links as they come, so that none may run a script or read a file.

/// Schemes of links that clients must never open: those that run scripts, that have their content within them, or that
/// lead to what is on the machine.
const FORBIDDEN: [&str; 8] =
    ["about", "blob", "data", "file", "filesystem", "javascript", "vbscript", "view-source"];
/// What else an icon may begin with.
const IMAGE: (&str, &str) = ("data", "image/");

/// Whether a text may be a link: a relative one, or one of http, https, mailto or a scheme of the app's own.
#[must_use]
pub fn is_link(text: &str) -> bool {
    !FORBIDDEN.contains(&split(text).0.as_str())
}

/// Whether a text may be an icon: a link, a plain name, or `data:image/…`.
#[must_use]
pub fn is_icon(text: &str) -> bool {
    let (scheme, rest) = split(text);
    let is_image = || rest.get(..IMAGE.1.len()).is_some_and(|start| start.eq_ignore_ascii_case(IMAGE.1));
    is_link(text) || (scheme == IMAGE.0 && is_image())
}

/// What stands before the first colon, in lower case, and what follows it. Browsers skip white space and control characters
/// before a scheme, and tabs and line breaks within it (WHATWG URL, section 4.4); clients in other languages trim more of
/// them, so that none counts here.
fn split(text: &str) -> (String, &str) {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    let is_skipped = |c: &char| c.is_whitespace() || c.is_control() || *c == '\u{feff}';
    (scheme.chars().filter(|c| !is_skipped(c)).map(|c| c.to_ascii_lowercase()).collect(), rest)
}
