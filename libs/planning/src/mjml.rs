//! MJML, from which the HTML of an email is compiled when a template is stored.
//!
//! The tags of the template engine, such as `{{ order }}`, are replaced by words before MJML is compiled, and put back into the HTML. So
//! the compiler changes none of them, and the HTML is escaped like one that an author wrote.

mod markup;
mod rewritten;
mod tags;

use std::thread;

use domain::Problem;
use mrml::prelude::parser::{Error as ParseError, ParserOptions};
use mrml::prelude::render::RenderOptions;

use crate::check::check_text;
use tags::HiddenTags;

/// Length of a text and of the HTML, in bytes. A longer email could not be rendered.
const LONGEST: usize = 256 * 1024;
/// Stack of the thread that compiles. The compiler recurses into the elements, whose nesting is limited before.
const STACK: usize = 8 << 20;
/// Name of the text in problems.
const NAME: &str = "channels.email.mjml";

/// Error in a text, with the number of its line, from 1.
#[derive(Debug, PartialEq, Eq)]
struct MjmlError {
    line: usize,
    cause: String,
}

impl MjmlError {
    fn new(text: &str, at: usize, cause: impl Into<String>) -> MjmlError {
        let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        MjmlError { line, cause: cause.into() }
    }
}

/// Compiles MJML to HTML with the same tags of the template engine. Reads no files, and nothing from the network.
///
/// # Errors
/// Returns a problem, with its line, if the text is no MJML, is too large or nests too deeply, or if its HTML lacks one of the tags.
pub fn compile_mjml(text: &str) -> Result<String, Problem> {
    if text.len() > LONGEST {
        let message = format!("{NAME} has more than {} KB", LONGEST / 1024);
        return Err(Problem::new(NAME, "too_long", message));
    }
    check_text("email.mjml", text)?;
    let compiled = thread::scope(|scope| {
        let compiling = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || compile(text));
        compiling.map(thread::ScopedJoinHandle::join)
    });
    match compiled {
        Ok(Ok(Ok(html))) => Ok(html),
        Ok(Ok(Err(MjmlError { line, cause }))) => {
            let message = format!("{NAME} has an error in line {line}: {cause}");
            Err(Problem::new(NAME, "invalid_mjml", message))
        }
        Ok(Err(_)) => {
            let message = format!("{NAME}: the MJML compiler failed; write the part as HTML");
            Err(Problem::new(NAME, "invalid_mjml", message))
        }
        Err(error) => {
            let message = format!("{NAME}: cannot start a thread that compiles it: {error}");
            Err(Problem::new(NAME, "invalid_mjml", message))
        }
    }
}

fn compile(text: &str) -> Result<String, MjmlError> {
    let (tags, hidden) = HiddenTags::hide(text);
    let at_hidden = |(at, cause): (usize, String)| MjmlError::new(text, hidden.origin(at), cause);
    let markup = markup::prepared(&hidden.text).map_err(at_hidden)?;
    let parsed = mrml::parse_with_options(&markup.text, &ParserOptions::default());
    let parsed = parsed.map_err(|error| {
        let (at, cause) = explained(&error);
        at_hidden((markup.origin(at), cause))
    })?;
    // By default, the HTML would load fonts from a third party.
    let options = RenderOptions { fonts: std::collections::HashMap::new(), ..RenderOptions::default() };
    let html = parsed.element.render(&options);
    let html =
        html.map_err(|error| MjmlError { line: 1, cause: format!("it cannot be compiled: {error}") })?;
    tags.put_back(text, &html, LONGEST)
}

/// Returns the place and the cause of an error.
fn explained(error: &ParseError) -> (usize, String) {
    match error {
        ParseError::UnexpectedElement { position, .. } => {
            (position.start, "this element must not stand here".to_owned())
        }
        ParseError::UnexpectedToken { position, .. } => {
            (position.start, "this must not stand here".to_owned())
        }
        ParseError::MissingAttribute { name, position, .. } => {
            (position.start, format!("the element lacks the attribute {name}"))
        }
        ParseError::InvalidAttribute { position, .. } => {
            (position.start, "the attribute has an invalid value".to_owned())
        }
        ParseError::InvalidFormat { position, .. } => (position.start, "the element is malformed".to_owned()),
        other => (0, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn document(body: &str) -> String {
        format!("<mjml>\n<mj-body>\n{body}\n</mj-body>\n</mjml>")
    }

    fn text(inner: &str) -> String {
        document(&format!("<mj-section><mj-column><mj-text>{inner}</mj-text></mj-column></mj-section>"))
    }

    fn refused(text: &str) -> String {
        compile_mjml(text).unwrap_err().message
    }

    #[test]
    fn tags_survive_wherever_they_stand() {
        let given = r##"<mjml>
<mj-head><mj-title>{{ title }}</mj-title><mj-style>.x { color: {{ color }}; }</mj-style></mj-head>
<mj-body background-color="{{ app.brand.color }}">
{% for order in orders if order.total > 3 and order.total < 9 %}
<mj-section><mj-column>
<mj-text>{% if a < b %}<p title='{{ x | default("y") }}'>Hi {{ name | default("you") }}</p>{% else %}-{% endif %}</mj-text>
<mj-button href='{{ url | default("https://a.example/?a=1&b=2") }}'>{# a comment < #}Go</mj-button>
<mj-image src="{{ image }}" alt="{{ alt }}" />
</mj-column></mj-section>
{% endfor %}
<mj-raw>{% raw %}{{ verbatim }}{% endraw %}</mj-raw>
</mj-body>
</mjml>
"##;
        let html = compile_mjml(given).unwrap();
        for kept in [
            "<title>{{ title }}</title>",
            ".x { color: {{ color }}; }",
            "background-color:{{ app.brand.color }}",
            "{% for order in orders if order.total > 3 and order.total < 9 %}",
            r#"{% if a < b %}<p title="{{ x | default("y") }}">Hi {{ name | default("you") }}</p>{% else %}-{% endif %}"#,
            r#"href="{{ url | default("https://a.example/?a=1&b=2") }}""#,
            r#"src="{{ image }}""#,
            r#"alt="{{ alt }}""#,
            "{% endfor %}",
            "{% raw %}{{ verbatim }}{% endraw %}",
        ] {
            assert!(html.contains(kept), "{kept} is missing in {html}");
        }
        assert!(!html.contains("fonts.googleapis"), "{html}");
    }

    #[test]
    fn attributes_keep_their_characters() {
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
        let html = compile_mjml(&text(&format!(
            "<a title='say \"hi\"' style=\"color: red;\n  top: 0\" data-x=\"10\u{a0}€ C:\\a {family}\">x</a>"
        )))
        .unwrap();
        let kept = "title=\"say &quot;hi&quot;\" style=\"color: red;   top: 0\" data-x=\"10&#xa0;€ C:&#x5c;a \u{1f468}&#x200d;\u{1f469}";
        assert!(html.contains(kept), "{html}");
    }

    #[test]
    fn errors_name_the_line() {
        for (given, line, cause) in [
            (document("<mj-section>\n<mj-colum></mj-colum></mj-section>"), 4, "mj-colum is no element of MJML"),
            (document("<mj-section><mj-column>\n</mj-section></mj-column>"), 4, "mj-column is open"),
            (document("\n<mj-section>"), 5, "mj-section is open"),
            ("<mjml><mj-body>\n".to_owned(), 2, "mj-body is open at the end"),
            (document("<mj-section><mj-column\nwidth=\"{{ width }}px\" /></mj-section>"), 4, "{{ width }}"),
            (document("{{ a\n}}\n<mj-include path=\"/etc/passwd\" />"), 5, "mj-include"),
            (document("<mj-text>\n<p>1 < 2</p></mj-text>"), 4, "invalid"),
            (document("<mj-section><mj-column>\n<mj-text {{ attributes }}>x</mj-text></mj-column></mj-section>"), 4, "{{ attributes }}"),
            ("<mjml>\n<mj-head>\n<mj-style inline=\"inline\">a { color: red }</mj-style></mj-head><mj-body></mj-body></mjml>".to_owned(), 3, "inline"),
            ("<p>Hello</p>".to_owned(), 1, "must be mjml"),
            ("<mjml></mjml>".to_owned(), 1, "mj-body is missing"),
            (String::new(), 1, "mj-body is missing"),
            ("\nHello".to_owned(), 2, "unknown token"),
            (text("\n{{ broken"), 4, "unexpected"),
            (text("{% if a %}\n"), 3, "unexpected end"),
        ] {
            let message = refused(&given);
            assert!(message.starts_with(&format!("channels.email.mjml has an error in line {line}: ")), "{message}\n{given}");
            assert!(message.contains(cause), "{message}");
        }
    }

    #[test]
    fn size_nesting_and_number_are_limited() {
        let column =
            |inner: &str| document(&format!("<mj-section><mj-column>{inner}</mj-column></mj-section>"));
        let all = format!(
            "<mjml><mj-head><mj-attributes><mj-all color=\"{}\" /></mj-attributes></mj-head><mj-body>{}</mj-body></mjml>",
            "r".repeat(10_000),
            "<mj-section />".repeat(1_000)
        );
        for (given, cause) in [
            (text(&"<b>".repeat(100_000)), "more than"),
            (text(&format!("{}{}", "<b>".repeat(5_000), "</b>".repeat(5_000))), "at most 64 elements"),
            (document(&"<mj-wrapper>".repeat(1_000)), "at most 64 elements"),
            (column(&"<mj-spacer />".repeat(3_000)), "at most 2000 elements"),
            (
                column(&format!("<mj-carousel>{}</mj-carousel>", "<mj-carousel-image />".repeat(100))),
                "at most 50",
            ),
            (all, "defaults"),
            (column(&"<mj-image />".repeat(1_900)), "compiled HTML has more than"),
            (text(&" ".repeat(LONGEST)), "more than 256 KB"),
        ] {
            let message = refused(&given);
            assert!(message.contains(cause), "{message}");
        }
        let deep = text(&format!("{}x{}", "<b>".repeat(58), "</b>".repeat(58)));
        assert!(compile_mjml(&deep).is_ok());
        let wrappers = document(&format!("{}{}", "<mj-wrapper>".repeat(60), "</mj-wrapper>".repeat(60)));
        assert!(compile_mjml(&wrappers).is_ok());
    }
}
