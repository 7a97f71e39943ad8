//! Plain text of an HTML email. The conversion accepts invalid HTML, reads the source once, and does not recurse.

/// Elements whose content is not shown.
const HIDDEN: &[&str] = &["head", "script", "style", "template", "title"];
/// Elements that start and end a line.
#[rustfmt::skip]
const BLOCKS: &[&str] = &[
    "address", "article", "aside", "blockquote", "body", "center", "dd", "div", "dl", "dt", "figure", "footer",
    "form", "header", "hr", "li", "main", "nav", "ol", "pre", "section", "table", "tbody", "tr", "ul",
];
/// Elements with an empty line before and after them.
const PARAGRAPHS: &[&str] = &["h1", "h2", "h3", "h4", "h5", "h6", "p"];
/// Named entities that are decoded. Others stay unchanged.
#[rustfmt::skip]
const ENTITIES: &[(&str, &str)] = &[
    ("amp", "&"), ("lt", "<"), ("gt", ">"), ("quot", "\""), ("apos", "'"), ("nbsp", " "), ("shy", ""),
    ("zwnj", ""), ("zwj", ""), ("copy", "©"), ("reg", "®"), ("trade", "™"), ("hellip", "…"), ("mdash", "—"),
    ("ndash", "–"), ("lsquo", "‘"), ("rsquo", "’"), ("sbquo", "‚"), ("ldquo", "“"), ("rdquo", "”"),
    ("bdquo", "„"), ("laquo", "«"), ("raquo", "»"), ("bull", "•"), ("middot", "·"), ("euro", "€"),
    ("pound", "£"), ("yen", "¥"), ("cent", "¢"), ("sect", "§"), ("deg", "°"), ("times", "×"), ("rarr", "→"),
    ("larr", "←"), ("auml", "ä"), ("ouml", "ö"), ("uuml", "ü"), ("Auml", "Ä"), ("Ouml", "Ö"), ("Uuml", "Ü"),
    ("szlig", "ß"), ("eacute", "é"), ("egrave", "è"), ("agrave", "à"), ("ccedil", "ç"), ("ntilde", "ñ"),
];
/// Maximum length of an entity in octets, without its `&` and with its `;`.
const ENTITY_LENGTH: usize = 12;

/// Converts HTML to text. Paragraphs, list items and table rows get their own lines. The target of a link follows its
/// text, and an image becomes its alternative text.
pub(crate) fn of_html(html: &str) -> String {
    let mut writer =
        Writer { out: String::with_capacity(html.len() / 2), breaks: 0, space: false, links: Vec::new() };
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        writer.text(text);
        rest = writer.markup(tag);
    }
    writer.text(rest);
    let mut out = writer.out;
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

struct Writer {
    out: String,
    /// Number of line ends to write before the next word.
    breaks: usize,
    /// True if a space must be written before the next word.
    space: bool,
    /// Links that are not closed yet: the target, and the offset in `out` at which the link's text begins.
    links: Vec<(String, usize)>,
}

impl Writer {
    fn text(&mut self, text: &str) {
        for word in text.split_inclusive(char::is_whitespace) {
            let bare = word.trim_end_matches(char::is_whitespace);
            if !bare.is_empty() {
                self.word(&decoded(bare));
            }
            self.space |= bare.len() < word.len();
        }
    }

    fn word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        let breaks = std::mem::take(&mut self.breaks);
        let space = std::mem::take(&mut self.space);
        if self.out.is_empty() {
            // No break or space before the first word.
        } else if breaks > 0 {
            self.out.extend(std::iter::repeat_n('\n', breaks));
        } else if space && !self.out.ends_with(['\n', ' ']) {
            self.out.push(' ');
        }
        self.out.push_str(word);
    }

    fn break_line(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
    }

    /// Processes one tag or comment, given the source after its `<`. Returns the source after the tag or comment.
    fn markup<'a>(&mut self, tag: &'a str) -> &'a str {
        if let Some(comment) = tag.strip_prefix("!--") {
            return comment.split_once("-->").map_or("", |(_, after)| after);
        }
        if !tag.starts_with(|letter: char| letter.is_ascii_alphabetic() || "/!?".contains(letter)) {
            self.word("<");
            return tag;
        }
        let (inside, after) = tag.split_at(end_of_tag(tag));
        let after = after.strip_prefix('>').unwrap_or(after);
        let closes = inside.starts_with('/');
        let inside = inside.trim_start_matches('/');
        let name_end = inside.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(inside.len());
        let (name, attributes) = inside.split_at(name_end);
        let name = name.to_ascii_lowercase();
        if HIDDEN.contains(&name.as_str()) && !closes {
            return after_element(after, &name);
        }
        if closes {
            self.close(&name);
        } else {
            self.open(&name, attributes);
        }
        after
    }

    fn open(&mut self, name: &str, attributes: &str) {
        match name {
            "br" => self.breaks += 1,
            "a" => {
                let target = attribute(attributes, "href").unwrap_or_default();
                self.links.push((target, self.out.len()));
            }
            "img" => {
                if let Some(text) = attribute(attributes, "alt") {
                    self.text(&text);
                }
            }
            "li" => {
                self.break_line(1);
                self.word("-");
                self.space = true;
            }
            "td" | "th" => self.space = true,
            _ => self.end_of_block(name),
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "a" => {
                let Some((target, start)) = self.links.pop() else { return };
                let text = self.out.get(start..).unwrap_or_default().trim();
                let is_shown =
                    text.is_empty() && !target.is_empty() || !text.is_empty() && !text.ends_with(&target);
                let is_followed = !target.starts_with(['#', '?']) && !target.starts_with("javascript:");
                if is_shown && is_followed && target.strip_prefix("mailto:") != Some(text) {
                    self.space = true;
                    self.word(&format!("<{target}>"));
                }
            }
            _ => self.end_of_block(name),
        }
    }

    fn end_of_block(&mut self, name: &str) {
        if PARAGRAPHS.contains(&name) {
            self.break_line(2);
        } else if BLOCKS.contains(&name) {
            self.break_line(1);
        }
    }
}

/// Returns the offset of the end of a tag: the first `>` outside quotes.
fn end_of_tag(tag: &str) -> usize {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // Unclosed quote: the tag ends at the next `>`, or at the end of the source.
    tag.find('>').unwrap_or(tag.len())
}

/// Returns the source after the end tag of the element `name`, given the source after its start tag.
fn after_element<'a>(mut rest: &'a str, name: &str) -> &'a str {
    while let Some((_, tag)) = rest.split_once("</") {
        if tag.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return tag.split_once('>').map_or("", |(_, after)| after);
        }
        rest = tag;
    }
    ""
}

/// Returns the value of the attribute `wanted`, without control characters.
fn attribute(mut attributes: &str, wanted: &str) -> Option<String> {
    while let Some((name, rest)) = attributes.split_once('=') {
        let rest = rest.trim_start();
        let (value, after) = match rest.chars().next()? {
            quote @ ('"' | '\'') => rest.get(1..)?.split_once(quote)?,
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        if name.split_whitespace().next_back().is_some_and(|name| name.eq_ignore_ascii_case(wanted)) {
            let value = decoded(value);
            return Some(value.trim().replace(|letter: char| letter.is_control(), ""));
        }
        attributes = after;
    }
    None
}

/// Decodes the entities of a text.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        out.push_str(before);
        let end = entity.bytes().take(ENTITY_LENGTH).position(|byte| byte == b';');
        let name = end.and_then(|end| Some((entity.get(..end)?, entity.get(end + 1..)?)));
        match name.and_then(|(name, after)| Some((character(name)?, after))) {
            Some((character, after)) => {
                out.push_str(&character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = entity;
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<String> {
    let Some(number) = name.strip_prefix('#') else {
        return ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    let character = char::from_u32(code)?;
    Some(if character.is_control() { String::new() } else { character.to_string() })
}

#[cfg(test)]
mod tests {
    use super::of_html;

    #[test]
    fn blocks_links_lists_and_images_are_kept_as_text() {
        let html = "<!DOCTYPE html><html><head><title>No</title><style>p > a { color: red }</style></head><body>\n\
            <!-- <p>hidden</p> --><h1>Your   order</h1><p>Hello <b>Ada</b>,<br>it is &quot;on&quot; its way &amp; on time&nbsp;&#33;</p>\
            <ul><li>One</li><li>Two <a href='https://example.com/?a=1&amp;b=2'>details</a></li></ul>\
            <script>if (1 < 2) alert('</p>')</script><table><tr><td>1</td><td>2</td></tr></table>\
            <img src=x alt=\"Our shop\"><p><a href=\"https://example.com\">https://example.com</a> \
            <a href=\"mailto:a@example.com\">a@example.com</a> <a href='#top'>up</a></p></body></html>";
        let text = "Your order\n\nHello Ada,\nit is \"on\" its way & on time !\n\n- One\n- Two details \
            <https://example.com/?a=1&b=2>\n1 2\nOur shop\n\nhttps://example.com a@example.com up\n";
        assert_eq!(of_html(html), text);
    }

    #[test]
    fn whatever_the_source_it_ends() {
        for html in [
            "",
            "<",
            "<p",
            "<a href=\"x",
            "a < b > c",
            "&",
            "&#x110000;",
            "<!--",
            "<script>",
            "</",
            "<a href=>x</a>",
        ] {
            of_html(html);
        }
        assert_eq!(of_html("a < b &unknown; c"), "a < b &unknown; c\n");
        let ampersands = "&".repeat(1 << 20);
        assert_eq!(of_html(&ampersands).trim_end(), ampersands);
        let deep = "<div>".repeat(100_000) + "deep" + &"<a href='x'>".repeat(10_000);
        assert_eq!(of_html(&deep), "deep\n");
    }
}
