//! The frame of every page.

/// Files of the site beside the guides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Site {
    WithReference,
    GuidesOnly,
}

/// A page without its frame.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    /// `guide` or `reference`; selects the link at the top and the layout.
    pub(crate) kind: &'static str,
    pub(crate) navigation: &'a str,
    pub(crate) main: &'a str,
    /// List of the page's sections, empty if there is none.
    pub(crate) contents: &'a str,
    pub(crate) site: Site,
}

impl Frame<'_> {
    /// Builds the page. It loads only the stylesheet and the script of the gateway.
    pub(crate) fn html(&self) -> String {
        let Frame { kind, navigation, main, contents, .. } = self;
        let (title, description) = (escape(self.title), escape(self.description));
        let current = |of: &str| if of == *kind { " aria-current=\"page\"" } else { "" };
        let mut top = format!("<a href=\"/guide\"{}>Guides</a>", current("guide"));
        if self.site == Site::WithReference {
            top.push_str(&format!("<a href=\"/docs\"{}>API reference</a>", current("reference")));
        }
        format!(
            r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="{description}">
<title>{title}</title>
<link rel="stylesheet" href="/docs/handbook.css">
<script type="module" src="/docs/handbook.js"></script>
</head>
<body class="{kind}">
<a class="skip" href="#main">Skip to the content</a>
<header>
<button class="menu" aria-expanded="false" aria-controls="pages" hidden>Menu</button>
<a class="brand" href="/guide">Tidings</a>
<nav class="top" aria-label="Documentation">{top}</nav>
<search class="find" hidden><input type="search" placeholder="Search" aria-label="Search guides and API" autocomplete="off" spellcheck="false"><kbd aria-hidden="true">/</kbd><div class="found" hidden><p role="status"></p><ul></ul></div></search>
</header>
<div class="frame">
<nav class="pages" id="pages" aria-label="Pages">{navigation}</nav>
<main id="main" tabindex="-1">{main}</main>
{contents}</div>
</body>
</html>
"##
        )
    }
}

/// Escapes text for HTML, also within quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}
