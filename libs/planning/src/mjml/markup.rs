//! Checks the elements of a text before the compiler recurses into them, and writes attributes in a form that it keeps.

use htmlparser::{ElementEnd, StrSpan, Token, Tokenizer};

use super::rewritten::Rewritten;

/// Elements that are open at the same time.
const MOST_LEVELS: usize = 64;
const MOST_ELEMENTS: usize = 2_000;
/// Images of carousels. The HTML of one grows with the number of all.
const MOST_SLIDES: usize = 50;
/// Bytes of attributes in `mj-attributes`, which may become attributes of each element, multiplied by the number of elements.
const MOST_DEFAULTS: usize = 4 * 1024 * 1024;
/// Elements without a closing tag.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];
const LONGEST_CLASSES: usize = 1024;
const DEFAULTS: &str = "mj-attributes";
/// Elements of MJML whose names begin with `mj-`.
const ELEMENTS: [&str; 31] = [
    "accordion",
    "accordion-element",
    "accordion-text",
    "accordion-title",
    "all",
    "attributes",
    "body",
    "breakpoint",
    "button",
    "carousel",
    "carousel-image",
    "class",
    "column",
    "divider",
    "font",
    "group",
    "head",
    "hero",
    "image",
    "navbar",
    "navbar-link",
    "preview",
    "raw",
    "section",
    "social",
    "social-element",
    "spacer",
    "style",
    "table",
    "text",
    "title",
];

/// Place and cause of an error.
type Found = (usize, String);

#[derive(Default)]
struct Elements<'a> {
    open: Vec<&'a str>,
    last: &'a str,
    number: usize,
    slides: usize,
    defaults: usize,
    has_body: bool,
}

/// Returns the text with attributes whose values need no escaping in Rust's notation, in which the compiler writes them.
pub(super) fn prepared(text: &str) -> Result<Rewritten, Found> {
    let mut prepared = Rewritten::default();
    let mut elements = Elements::default();
    let mut from = 0;
    for token in Tokenizer::from(text) {
        match token.map_err(|error| (offset(text, error.pos().row), error.to_string()))? {
            Token::ElementStart { local, span, .. } => elements.start(&local, span.start())?,
            Token::ElementEnd { end, span } => elements.end(end, span.start())?,
            Token::Attribute { local, value: Some(value), span, .. } => {
                elements.attribute(&local, &value, span.start())?;
                prepared.keep(text, from..value.start());
                prepared.replace(&written(&value), value.start());
                from = value.end();
            }
            _ => {}
        }
    }
    elements.finish(text)?;
    prepared.keep(text, from..text.len());
    Ok(prepared)
}

impl<'a> Elements<'a> {
    fn start(&mut self, name: &StrSpan<'a>, at: usize) -> Result<(), Found> {
        let name = name.as_str();
        if self.number == 0 && name != "mjml" {
            return Err((at, "the first element must be mjml".to_owned()));
        }
        match name.strip_prefix("mj-") {
            Some("include") => {
                return Err((
                    at,
                    "mj-include is not supported, because a template contains its whole text".to_owned(),
                ));
            }
            Some(element) if element != "wrapper" && !ELEMENTS.contains(&element) => {
                return Err((at, format!("{name} is no element of MJML")));
            }
            Some("carousel-image") => self.slides += 1,
            Some("body") => self.has_body = true,
            _ => {}
        }
        self.number += 1;
        self.last = name;
        if !VOID.contains(&name) {
            self.open.push(name);
        }
        if self.open.len() > MOST_LEVELS {
            return Err((at, format!("at most {MOST_LEVELS} elements can be nested")));
        }
        if self.number > MOST_ELEMENTS {
            return Err((at, format!("at most {MOST_ELEMENTS} elements are allowed")));
        }
        if self.slides > MOST_SLIDES {
            return Err((at, format!("at most {MOST_SLIDES} images of carousels are allowed")));
        }
        Ok(())
    }

    fn end(&mut self, end: ElementEnd<'a>, at: usize) -> Result<(), Found> {
        match end {
            ElementEnd::Open => {}
            ElementEnd::Empty if VOID.contains(&self.last) => {}
            ElementEnd::Empty => drop(self.open.pop()),
            ElementEnd::Close(_, name) => match self.open.pop() {
                Some(open) if open == name.as_str() => {}
                Some(open) => return Err((at, format!("{name} is closed, but {open} is open"))),
                None => return Err((at, format!("{name} is closed, but not open"))),
            },
        }
        Ok(())
    }

    fn attribute(&mut self, name: &StrSpan<'a>, value: &StrSpan<'a>, at: usize) -> Result<(), Found> {
        if self.last == "mj-style" && name.as_str() == "inline" {
            let cause =
                "inline styles are not supported; write them as attributes, or in an mj-style without inline";
            return Err((at, cause.to_owned()));
        }
        // The compiler divides it again for each attribute that it looks up.
        if name.as_str() == "mj-class" && value.len() > LONGEST_CLASSES {
            return Err((at, format!("mj-class has more than {LONGEST_CLASSES} bytes")));
        }
        if self.open.contains(&DEFAULTS) {
            self.defaults += value.len();
        }
        Ok(())
    }

    fn finish(&self, text: &str) -> Result<(), Found> {
        if let Some(open) = self.open.last() {
            return Err((text.len(), format!("{open} is open at the end")));
        }
        if !self.has_body {
            return Err((0, "mj-body is missing".to_owned()));
        }
        if self.defaults.saturating_mul(self.number) > MOST_DEFAULTS {
            return Err((0, "the defaults in mj-attributes are too long for so many elements".to_owned()));
        }
        Ok(())
    }
}

/// Returns the place at which a line begins.
fn offset(text: &str, line: u32) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1) as usize);
    lines.map(str::len).sum()
}

/// Writes a value of an attribute without characters that [`char::escape_debug`] changes.
fn written(value: &str) -> String {
    let mut written = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\n' | '\r' | '\t' => written.push(' '),
            '"' => written.push_str("&quot;"),
            '\'' => written.push('\''),
            letter if letter.escape_debug().len() == 1 => written.push(letter),
            letter => written.push_str(&format!("&#x{:x};", u32::from(letter))),
        }
    }
    written
}
