use html5gum::State;

pub(super) enum Display {
    Inline,
    Block,
    Paragraph,
}

/// Elements whose content is hidden. `head` is not among them, because its end tag is optional: each of its elements with text is hidden.
pub(super) const HIDDEN: &[&[u8]] =
    &[b"iframe", b"noembed", b"noframes", b"script", b"style", b"template", b"title"];
#[rustfmt::skip]
const BLOCKS: &[&[u8]] = &[
    b"address", b"article", b"aside", b"blockquote", b"body", b"caption", b"center", b"dd", b"details", b"dialog", b"dir",
    b"div", b"dl", b"dt", b"fieldset", b"figcaption", b"figure", b"footer", b"form", b"header", b"hgroup", b"hr", b"html",
    b"legend", b"li", b"listing", b"main", b"menu", b"nav", b"ol", b"optgroup", b"option", b"plaintext", b"pre",
    b"search", b"section", b"summary", b"table", b"tbody", b"tfoot", b"thead", b"tr", b"ul", b"xmp",
];
const PARAGRAPHS: &[&[u8]] = &[b"h1", b"h2", b"h3", b"h4", b"h5", b"h6", b"p"];

pub(super) fn display(name: &[u8]) -> Display {
    if PARAGRAPHS.contains(&name) {
        Display::Paragraph
    } else if BLOCKS.contains(&name) {
        Display::Block
    } else {
        Display::Inline
    }
}

/// Returns the state in which the tokenizer reads the content of an element whose content is text and not elements. Mail programs
/// run no scripts, so the content of `noscript` is elements (HTML standard, section 13.2.6.4.7).
pub(super) fn text_state(name: &[u8]) -> Option<State> {
    match name {
        b"textarea" | b"title" => Some(State::RcData),
        b"iframe" | b"noembed" | b"noframes" | b"style" | b"xmp" => Some(State::RawText),
        b"script" => Some(State::ScriptData),
        b"plaintext" => Some(State::PlainText),
        _ => None,
    }
}
