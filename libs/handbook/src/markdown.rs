//! Markdown to HTML, with anchors, rewritten links, and the text of each section for the search.

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

use crate::highlight;
use crate::layout::escape;
use crate::slug::Slugs;

/// Number of columns from which a table is too wide for a phone.
const WIDE: usize = 4;

/// A rendered file.
#[derive(Default)]
pub(crate) struct Rendered {
    /// HTML without the first heading.
    pub(crate) html: String,
    /// Text of the first heading.
    pub(crate) title: String,
    pub(crate) sections: Vec<Section>,
}

/// A heading with the text up to the next one.
#[derive(Default)]
pub(crate) struct Section {
    pub(crate) level: u8,
    pub(crate) anchor: String,
    pub(crate) heading: String,
    pub(crate) text: String,
}

/// Renders a file. `resolve` returns the URL of a link, or None if the target has no page: then only the text is shown.
pub(crate) fn render(text: &str, resolve: &dyn Fn(&str) -> Option<String>) -> Rendered {
    let events: Vec<_> =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).collect();
    let mut writer = Writer {
        resolve,
        slugs: Slugs::default(),
        rendered: Rendered::default(),
        out: Vec::new(),
        ends_of_links: Vec::new(),
    };
    let mut rest = events.into_iter();
    while let Some(event) = rest.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let inner = until(&mut rest, |end| matches!(end, TagEnd::Heading(_)));
                writer.heading(level, inner);
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let inner = until(&mut rest, |end| matches!(end, TagEnd::CodeBlock));
                writer.code(&kind, &plain(&inner));
            }
            Event::Start(Tag::Table(columns)) => {
                let inner = until(&mut rest, |end| matches!(end, TagEnd::Table));
                writer.table(columns, inner);
            }
            event => writer.event(event),
        }
    }
    writer.finish()
}

/// Renders one paragraph without its `<p>`.
pub(crate) fn inline(text: &str) -> String {
    let html = render(text, &|url| Some(url.to_owned())).html;
    let html = html.trim();
    let inner = html.strip_prefix("<p>").and_then(|html| html.strip_suffix("</p>"));
    inner.filter(|inner| !inner.contains("<p>")).unwrap_or(html).to_owned()
}

struct Writer<'a, 'r> {
    resolve: &'r dyn Fn(&str) -> Option<String>,
    slugs: Slugs,
    rendered: Rendered,
    out: Vec<Event<'a>>,
    ends_of_links: Vec<&'static str>,
}

impl<'a> Writer<'a, '_> {
    fn heading(&mut self, level: HeadingLevel, inner: Vec<Event<'a>>) {
        let text = plain(&inner);
        let anchor = self.slugs.next(&text);
        let section =
            Section { level: level as u8, anchor: anchor.clone(), heading: text, text: String::new() };
        if self.rendered.title.is_empty() && level == HeadingLevel::H1 {
            self.rendered.title.clone_from(&section.heading);
            self.rendered.sections.push(section);
            return;
        }
        self.rendered.sections.push(section);
        self.raw(format!("<{level} id=\"{anchor}\"><a href=\"#{anchor}\">"));
        for event in inner {
            // A link cannot contain another one.
            if !matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)) {
                self.out.push(event);
            }
        }
        self.raw(format!("</a></{level}>\n"));
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>, text: &str) {
        let language = match kind {
            CodeBlockKind::Fenced(language) => language.as_ref(),
            CodeBlockKind::Indented => "",
        };
        self.add_text(text);
        self.raw(format!(
            "<div class=\"block\"><pre tabindex=\"0\"><code>{}</code></pre></div>\n",
            highlight::code(language, text.trim_end())
        ));
    }

    /// Writes a table. If a phone is too narrow for it, each cell has its heading, so that the stylesheet can show cells below each other.
    fn table(&mut self, columns: Vec<Alignment>, inner: Vec<Event<'a>>) {
        let has_images = inner.iter().any(|event| matches!(event, Event::Start(Tag::Image { .. })));
        let is_stacked = columns.len() >= WIDE || has_images;
        let class = if is_stacked { "table stacked" } else { "table" };
        self.raw(format!("<div class=\"{class}\" tabindex=\"0\">"));
        self.out.push(Event::Start(Tag::Table(columns)));
        let headings: Vec<String> = headings(&inner);
        let (mut is_body, mut column) = (false, 0);
        for event in inner {
            match event {
                Event::Start(Tag::TableRow) => {
                    (is_body, column) = (is_stacked, 0);
                    self.out.push(event);
                }
                Event::Start(Tag::TableCell) if is_body => {
                    let heading = headings.get(column).filter(|heading| !heading.is_empty());
                    let label = heading.map(|heading| format!(" data-heading=\"{}\"", escape(heading)));
                    self.raw(format!("<td{}>", label.unwrap_or_default()));
                    column += 1;
                }
                Event::End(TagEnd::TableCell) if is_body => {
                    self.add_text(" ");
                    self.raw("</td>".to_owned());
                }
                event => self.event(event),
            }
        }
        self.out.push(Event::End(TagEnd::Table));
        self.raw("</div>\n".to_owned());
    }

    fn event(&mut self, event: Event<'a>) {
        match event {
            Event::Text(ref text) | Event::Code(ref text) => {
                self.add_text(text);
                self.out.push(event);
            }
            Event::SoftBreak
            | Event::HardBreak
            | Event::End(TagEnd::Paragraph | TagEnd::TableCell | TagEnd::Item) => {
                self.add_text(" ");
                self.out.push(event);
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let (open, close) = match (self.resolve)(&dest_url) {
                    Some(url) => (format!("<a href=\"{}\">", escape(&url)), "</a>"),
                    None => {
                        let path = escape(dest_url.trim_start_matches("../"));
                        (format!("<span title=\"{path}, in the sources\">"), "</span>")
                    }
                };
                self.raw(open);
                self.ends_of_links.push(close);
            }
            Event::End(TagEnd::Link) => {
                let close = self.ends_of_links.pop().unwrap_or_default();
                self.raw(close.to_owned());
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = (self.resolve)(&dest_url).map_or(dest_url, CowStr::from);
                self.out.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            event => self.out.push(event),
        }
    }

    fn add_text(&mut self, text: &str) {
        if self.rendered.sections.is_empty() {
            self.rendered.sections.push(Section::default());
        }
        if let Some(section) = self.rendered.sections.last_mut() {
            section.text.push_str(text);
        }
    }

    fn raw(&mut self, html: String) {
        self.out.push(Event::Html(html.into()));
    }

    fn finish(mut self) -> Rendered {
        html::push_html(&mut self.rendered.html, self.out.into_iter());
        // A screen reader announces a header for each cell; these tables have none.
        self.rendered.html = self.rendered.html.replace("<th></th>", "<td></td>");
        self.rendered
    }
}

/// Returns the texts of a table's first row.
fn headings(table: &[Event<'_>]) -> Vec<String> {
    let is_end = |event: &Event<'_>| matches!(event, Event::End(TagEnd::TableHead));
    let head = table.split(is_end).next().unwrap_or_default();
    let cells = head.split(|event| matches!(event, Event::Start(Tag::TableCell)));
    cells.skip(1).map(plain).collect()
}

/// Takes the events up to the end of an element.
fn until<'a>(
    events: &mut impl Iterator<Item = Event<'a>>,
    is_end: impl Fn(&TagEnd) -> bool,
) -> Vec<Event<'a>> {
    events.take_while(|event| !matches!(event, Event::End(end) if is_end(end))).collect()
}

/// Text of events, without markup.
fn plain(events: &[Event<'_>]) -> String {
    let text = events.iter().map(|event| match event {
        Event::Text(text) | Event::Code(text) => text.as_ref(),
        Event::SoftBreak => " ",
        _ => "",
    });
    text.collect()
}

#[cfg(test)]
mod tests {
    use super::{inline, render};

    #[test]
    fn a_link_without_a_page_becomes_text() {
        let text = "# T\n\n## A `b`\n[here](#a-b) and [code](../libs/x.rs)";
        let rendered = render(text, &|url| url.starts_with('#').then(|| url.to_owned()));
        assert_eq!(rendered.title, "T");
        assert_eq!((rendered.sections[1].level, &*rendered.sections[1].text), (2, "here and code "));
        assert!(
            rendered.html.contains("<h2 id=\"a-b\"><a href=\"#a-b\">A <code>b</code></a></h2>"),
            "{}",
            rendered.html
        );
        assert!(rendered.html.contains("<a href=\"#a-b\">here</a>"), "{}", rendered.html);
        assert!(
            rendered.html.contains("<span title=\"libs/x.rs, in the sources\">code</span>"),
            "{}",
            rendered.html
        );
    }

    #[test]
    fn each_cell_of_a_wide_table_has_its_heading() {
        let render = |text: &str| render(text, &|url| Some(url.to_owned()));
        let wide = render("| | `a` | b | c |\n|---|---|---|---|\n| one | 2 | <3> | [4](x) |");
        let cells = "<td>one</td><td data-heading=\"a\">2</td>";
        assert!(
            wide.html.starts_with("<div class=\"table stacked\"") && wide.html.contains(cells),
            "{}",
            wide.html
        );
        assert!(wide.sections[0].text.ends_with("one 2 <3> 4 "), "{}", wide.sections[0].text);
        let pictures = render("| a | b |\n|---|---|\n| ![x](x.png) | y |").html;
        assert!(pictures.contains("<td data-heading=\"b\">y</td>"), "{pictures}");
        let narrow = render("| a | b |\n|---|---|\n| 1 | 2 |").html;
        assert!(narrow.starts_with("<div class=\"table\" ") && narrow.contains("<td>1</td>"), "{narrow}");
    }

    #[test]
    fn a_paragraph_is_rendered_without_its_element() {
        assert_eq!(inline("At most `5`, <none>"), "At most <code>5</code>, <none>");
    }
}
