//! Plain text of an HTML email, written token by token: the time grows only with the size of the HTML, and nesting costs no memory.

mod elements;
mod writer;

use html5gum::emitters::ForwardingEmitter;
use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Emitter, EndTag, HtmlString, StartTag, State, Token, Tokenizer};

use elements::{Display, HIDDEN, display, text_state};
use writer::Writer;

/// Paragraphs, list items and table rows get their own lines. The target of a link follows its text, and an image becomes its alternative
/// text.
pub(crate) fn of_html(html: &str) -> String {
    let mut reader = Reader { writer: Writer::with_capacity(html.len() / 2), ..Reader::default() };
    let mut tokens = Tokenizer::new_with_emitter(html, Lenient::default());
    while let Some(Ok(token)) = tokens.next() {
        match token {
            Token::StartTag(tag) => {
                if let Some(state) = reader.start(&tag) {
                    tokens.set_state(state);
                }
            }
            Token::EndTag(tag) => reader.end(&tag),
            Token::String(text) => reader.text(&text.value),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    reader.close_link();
    reader.writer.finish()
}

/// Emitter without the errors of the HTML: checking each character for them takes a third of the time.
#[derive(Default)]
struct Lenient(DefaultEmitter);

impl ForwardingEmitter for Lenient {
    type Token = Token;

    fn inner(&mut self) -> &mut impl Emitter<Token = Token> {
        &mut self.0
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }
}

#[derive(Default)]
struct Reader {
    writer: Writer,
    /// Open element without visible text: its name, and the number of open elements of that name.
    hidden: Option<(Vec<u8>, usize)>,
    /// True inside a `<p>`. The start of most blocks, or the end of its parent, closes it.
    is_in_paragraph: bool,
    /// Link that is open: its target, and the offset at which its text begins. Links cannot contain links.
    link: Option<(String, usize)>,
}

impl Reader {
    fn text(&mut self, text: &HtmlString) {
        if self.hidden.is_none() {
            match str::from_utf8(text) {
                Ok(text) => self.writer.text(text),
                Err(_) => self.writer.text(&String::from_utf8_lossy(text)),
            }
        }
    }

    /// Processes a start tag. Returns the state in which the tokenizer must read the content of the element, if it is text.
    fn start(&mut self, tag: &StartTag<()>) -> Option<State> {
        let name = tag.name.as_slice();
        if let Some((hidden, open)) = &mut self.hidden {
            // Only templates can contain elements of their own name.
            if name == b"template" && name == hidden.as_slice() {
                *open += 1;
            }
            return text_state(name);
        }
        if HIDDEN.contains(&name) {
            self.hidden = Some((name.to_vec(), 1));
            return text_state(name);
        }
        match name {
            b"br" => self.writer.next_line(),
            b"a" => {
                self.close_link();
                let target = attribute(tag, b"href").unwrap_or_default();
                self.link = Some((target, self.writer.len()));
            }
            b"img" | b"image" => {
                if let Some(text) = attribute(tag, b"alt") {
                    self.writer.text(&text);
                }
            }
            b"td" | b"th" => {
                self.end_paragraph();
                self.writer.space();
            }
            _ => self.boundary(name, false),
        }
        if name == b"li" {
            self.writer.bullet();
        }
        text_state(name)
    }

    fn end(&mut self, tag: &EndTag<()>) {
        let name = tag.name.as_slice();
        if let Some((hidden, open)) = &mut self.hidden {
            if name == hidden.as_slice() {
                *open -= 1;
                if *open == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        match name {
            b"a" => self.close_link(),
            // The standard reads </br> as <br>.
            b"br" => self.writer.next_line(),
            b"td" | b"th" => self.end_paragraph(),
            _ => self.boundary(name, true),
        }
    }

    fn boundary(&mut self, name: &[u8], is_end: bool) {
        match display(name) {
            Display::Inline => {}
            Display::Block => {
                self.end_paragraph();
                self.writer.break_line(1);
            }
            Display::Paragraph => {
                self.is_in_paragraph = name == b"p" && !is_end;
                self.writer.break_line(2);
            }
        }
    }

    fn end_paragraph(&mut self) {
        if std::mem::take(&mut self.is_in_paragraph) {
            self.writer.break_line(2);
        }
    }

    fn close_link(&mut self) {
        let Some((target, start)) = self.link.take() else { return };
        let text = self.writer.since(start).trim();
        let is_shown = if text.is_empty() { !target.is_empty() } else { !text.ends_with(&target) };
        let is_followed = !target.starts_with(['#', '?']) && !target.starts_with("javascript:");
        if is_shown && is_followed && target.strip_prefix("mailto:") != Some(text) {
            self.writer.target(&target);
        }
    }
}

/// Returns the value of an attribute, without control characters.
fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = String::from_utf8_lossy(&tag.attributes.get(name)?.value);
    Some(value.trim().replace(|letter: char| letter.is_control(), ""))
}

#[cfg(test)]
mod tests;
