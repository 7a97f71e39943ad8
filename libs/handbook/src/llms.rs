//! `/llms.txt` and `/llms-full.txt`: the guides for language models (<https://llmstxt.org>).

use crate::guide::{groups, summary};

/// Group whose pages are about Tidings' own code.
const OPTIONAL: [&str; 2] = ["Develop", "More"];

/// Lists the pages, each with its first sentence. Links lead to the Markdown sources.
pub fn llms() -> String {
    let mut out = "# Tidings\n\n> A self-hosted service that delivers notifications: in-app inbox, email, web push, mobile push and SMS.\n\n\
        The whole API is at [/openapi.json](/openapi.json) (OpenAPI 3.1). All guides in one file: [/llms-full.txt](/llms-full.txt).\n"
        .to_owned();
    for (title, pages) in groups() {
        let title = if title == "Develop" { "Optional" } else { title };
        out.push_str(&format!("\n## {title}\n\n"));
        for page in pages {
            let rendered = page.rendered();
            let about = rendered.sections.first().map(|section| summary(&section.text)).unwrap_or_default();
            let name = if page.name().is_empty() { "overview".to_owned() } else { page.name() };
            out.push_str(&format!("- [{}](/guide/{name}.md): {}", rendered.title, about.replace('\n', " ")));
            out.push('\n');
        }
    }
    out
}

/// Joins the Markdown sources of all guides for users and operators.
pub fn llms_full() -> String {
    let groups = groups().into_iter().filter(|(title, _)| !OPTIONAL.contains(title));
    let texts: Vec<&str> =
        groups.flat_map(|(_, pages)| pages).map(|page| page.markdown().trim_end()).collect();
    texts.join("\n\n---\n\n")
}
