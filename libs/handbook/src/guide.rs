//! The guides: the Markdown files of the repository as pages.

use std::collections::BTreeSet;

use crate::layout::{Frame, Site, escape};
use crate::markdown::{self, Rendered, Section};
use crate::sources::{IMAGES, PAGES};

/// Pages in the navigation, by group. A page of `docs` that is missing here appears in the last group.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["", "trying", "api", "content", "inbox", "statuses"]),
    ("Build", &["topics", "realtime", "webhooks", "providers", "app-settings", "limits", "erasure"]),
    ("Clients", &["clients-client", "clients-inbox", "clients-react", "clients-web-push"]),
    ("Run", &["deploy-compose", "deploy-kubernetes", "deploy-systemd", "deploy-sizing"]),
    ("Operate", &["operating", "backup", "security", "scaling", "guarantees", "logging", "benchmarks"]),
    ("Develop", &["architecture", "contributing", "adding-a-channel", "decisions", "changelog"]),
];
const OTHERS: &str = "More";
/// Name of the page of each decision begins with this. Their index lists them.
const DECISION: &str = "decisions-";

/// One page of the guide.
#[derive(Clone, Copy)]
pub struct Guide {
    source: &'static str,
    text: &'static str,
}

/// Lists all pages.
pub fn pages() -> impl Iterator<Item = Guide> {
    PAGES.iter().map(|&(source, text)| Guide { source, text })
}

/// Lists the images of the pages, by the last part of their URL.
pub fn images() -> impl Iterator<Item = (String, &'static [u8])> {
    IMAGES.iter().map(|(path, bytes)| (image_name(path), *bytes))
}

/// Renders the page that a browser gets for a page that does not exist.
pub fn missing_page() -> String {
    Frame {
        title: "No such page · Tidings",
        description: "",
        kind: "guide",
        // No page has this name.
        navigation: &navigation("-"),
        main: "<article><h1>No such page</h1>\n<p>See <a href=\"/guide\">all guides</a> or the \
               <a href=\"/docs\">API reference</a>, or search for a word.</p>\n</article>",
        contents: "",
        site: Site::WithReference,
    }
    .html()
}

impl Guide {
    /// Last part of the page's URL, `/guide/{name}`; empty for the page at `/guide`.
    pub fn name(self) -> String {
        if self.source == "SECURITY.md" {
            // `docs/security.md` has the name.
            return "vulnerabilities".to_owned();
        }
        let path = self.source.trim_end_matches(".md").to_lowercase();
        let path = path.strip_prefix("docs/").unwrap_or(&path);
        path.trim_end_matches("readme").trim_end_matches('/').replace('/', "-")
    }

    /// The Markdown source.
    pub fn markdown(self) -> &'static str {
        self.text
    }

    /// Renders the page.
    pub fn html(self, site: Site) -> String {
        let rendered = self.rendered();
        let title = match self.name().as_str() {
            "" => "Tidings guide".to_owned(),
            _ => format!("{} · Tidings", rendered.title),
        };
        let first = rendered.sections.first();
        let description = first.map(|section| summary(&section.text)).unwrap_or_default();
        let anchor = first.map(|section| section.anchor.as_str()).unwrap_or_default();
        Frame {
            title: &title,
            description: &description,
            kind: "guide",
            navigation: &navigation(&self.name()),
            main: &format!(
                "<article><h1 id=\"{anchor}\">{}</h1>\n{}</article>",
                escape(&rendered.title),
                rendered.html
            ),
            contents: &contents(&rendered.sections),
            site,
        }
        .html()
    }

    pub(crate) fn url(self) -> String {
        url(&self.name())
    }

    pub(crate) fn title(self) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.source)
    }

    pub(crate) fn is_decision(self) -> bool {
        self.name().starts_with(DECISION)
    }

    pub(crate) fn rendered(self) -> Rendered {
        markdown::render(self.text, &|link| self.resolve(link))
    }

    /// Returns the URL of a link of this page; None if its target is neither a page nor an image.
    fn resolve(self, link: &str) -> Option<String> {
        if link.starts_with('#') || link.contains("://") || link.starts_with("mailto:") {
            return Some(link.to_owned());
        }
        let (path, fragment) =
            link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let target = self.join(path);
        if IMAGES.iter().any(|(image, _)| *image == target) {
            return Some(url(&image_name(&target)));
        }
        let page =
            pages().find(|page| page.source == target || page.source == format!("{target}/README.md"))?;
        let anchor = fragment.map(|anchor| format!("#{anchor}")).unwrap_or_default();
        Some(format!("{}{anchor}", page.url()))
    }

    /// Returns the path in the repository to which a relative path of this page leads.
    fn join(self, path: &str) -> String {
        let mut parts: Vec<&str> = self.source.split('/').collect();
        parts.pop();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }
}

/// Returns the groups of the navigation with their pages.
pub(crate) fn groups() -> Vec<(&'static str, Vec<Guide>)> {
    let find = |name: &&str| pages().find(|page| page.name() == *name);
    let mut groups: Vec<_> = GROUPS
        .iter()
        .map(|(title, names)| (*title, names.iter().filter_map(find).collect::<Vec<_>>()))
        .collect();
    let placed: BTreeSet<String> =
        groups.iter().flat_map(|(_, pages)| pages).map(|page| page.name()).collect();
    let others = pages().filter(|page| !placed.contains(&page.name()) && !page.is_decision());
    groups.push((OTHERS, others.collect()));
    groups
}

fn url(name: &str) -> String {
    if name.is_empty() { "/guide".to_owned() } else { format!("/guide/{name}") }
}

fn image_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn navigation(current: &str) -> String {
    let mut out = String::new();
    for (title, pages) in groups() {
        out.push_str(&format!("<h2>{title}</h2><ul>"));
        for page in pages {
            let is_current =
                page.name() == current || (page.name() == "decisions" && current.starts_with(DECISION));
            let mark = if is_current { " aria-current=\"page\"" } else { "" };
            out.push_str(&format!("<li><a href=\"{}\"{mark}>{}</a></li>", page.url(), escape(short(page))));
        }
        out.push_str("</ul>");
    }
    out
}

/// Title in the navigation, which is narrow.
fn short(page: Guide) -> &'static str {
    match page.name().as_str() {
        "" => "Overview",
        "deploy-compose" => "Docker Compose",
        "deploy-kubernetes" => "Kubernetes",
        "deploy-systemd" => "systemd",
        _ => page.title(),
    }
}

fn contents(sections: &[Section]) -> String {
    let shown: Vec<_> = sections.iter().filter(|section| (2..=3).contains(&section.level)).collect();
    if shown.len() < 2 {
        return String::new();
    }
    let mut out = "<nav class=\"contents\" aria-label=\"On this page\"><h2>On this page</h2><ul>".to_owned();
    for Section { level, anchor, heading, .. } in shown {
        out.push_str(&format!("<li class=\"l{level}\"><a href=\"#{anchor}\">{}</a></li>", escape(heading)));
    }
    out.push_str("</ul></nav>\n");
    out
}

/// Returns the first sentence of a text.
pub(crate) fn summary(text: &str) -> String {
    let text = text.trim();
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text.get(..end).unwrap_or(text).trim().to_owned()
}

/// Returns the URL and the title of a page or of one of its sections; None if there is no such page or section.
pub(crate) fn link(name: &str, anchor: &str) -> Option<(String, String)> {
    let page = pages().find(|page| page.name() == name)?;
    if anchor.is_empty() {
        return Some((page.url(), page.title().to_owned()));
    }
    let section = page.rendered().sections.into_iter().find(|section| section.anchor == anchor)?;
    Some((format!("{}#{anchor}", page.url()), section.heading))
}
