//! Links and anchors of all pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use handbook::Site;
use serde_json::{Value, json};

/// Paths of the gateway that are not pages of this crate.
const OTHERS: [&str; 4] = ["/openapi.json", "/llms-full.txt", "/docs/handbook.css", "/docs/handbook.js"];

/// Returns the values of an attribute in a page.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let before = format!(" {name}=\"");
    html.split(&before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns all pages by their path.
fn pages() -> BTreeMap<String, String> {
    let url = |name: String| if name.is_empty() { "/guide".to_owned() } else { format!("/guide/{name}") };
    let mut pages: BTreeMap<_, _> =
        handbook::pages().map(|page| (url(page.name()), page.html(Site::WithReference))).collect();
    assert_eq!(pages.len(), handbook::pages().count(), "two pages have the same name");
    pages.extend(handbook::images().map(|(name, _)| (url(name), String::new())));
    assert!(pages.insert("/docs".to_owned(), handbook::reference(&document())).is_none());
    pages
}

/// A document with an operation of each tag and of each id that the guides are linked to.
fn document() -> Value {
    let operation = |id: &str, tag: &str| json!({"operationId": id, "tags": [tag], "summary": "Does it.", "responses": {"200": {"description": "Done."}}});
    let tags: Vec<&str> = handbook::linked().collect();
    let paths: serde_json::Map<_, _> =
        tags.iter().map(|tag| (format!("/v3/{tag}"), json!({"get": operation(tag, tag)}))).collect();
    let tags: Vec<_> = tags.iter().map(|tag| json!({"name": tag, "description": "About it."})).collect();
    json!({"paths": paths, "tags": tags, "info": {"description": "About.", "version": "1"}, "components": {}})
}

#[test]
fn every_link_leads_to_a_page_and_every_anchor_to_a_section() {
    let pages = pages();
    let anchors: BTreeMap<&String, BTreeSet<&str>> =
        pages.iter().map(|(url, html)| (url, attributes(html, "id").into_iter().collect())).collect();
    let (mut checked, mut problems) = (0, Vec::new());
    for (url, html) in &pages {
        for link in attributes(html, "href").into_iter().chain(attributes(html, "src")) {
            if link.contains(':') || OTHERS.contains(&link) {
                continue;
            }
            checked += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { url } else { &path.to_owned() };
            let is_known = anchors.get(target).is_some_and(|ids| anchor.is_empty() || ids.contains(anchor));
            if !is_known {
                problems.push(format!("{url}: {link}"));
            }
        }
    }
    assert!(checked > 5_000, "{checked} links");
    assert!(problems.is_empty(), "no such page or section:\n{}", problems.join("\n"));
}

#[test]
fn no_id_occurs_twice_on_a_page() {
    for (url, html) in pages() {
        let mut seen = BTreeSet::new();
        let twice: Vec<_> = attributes(&html, "id").into_iter().filter(|id| !seen.insert(*id)).collect();
        assert!(twice.is_empty(), "{url}: {twice:?}");
    }
}

#[test]
fn every_page_of_the_documentation_is_a_guide() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let names: BTreeSet<String> = handbook::pages().map(handbook::Guide::name).collect();
    let mut found = 0;
    for entry in fs::read_dir(docs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found += 1;
            let name = path.file_stem().unwrap().to_str().unwrap().to_lowercase();
            assert!(names.contains(&name), "{name} is missing: touch libs/handbook/build.rs");
        }
    }
    assert!(found > 15, "{found} pages");
}

#[test]
fn every_operation_has_the_guides_of_its_table() {
    let reference = handbook::reference(&document());
    let operations = reference.matches("<section class=\"op\"").count() - 3;
    assert_eq!(reference.matches("<dt>Guides</dt>").count(), operations);
    assert_eq!(handbook::missing_guides(), Vec::<String>::new());
}

#[test]
fn the_search_finds_sections_by_their_text() {
    let index: Value = serde_json::from_str(&handbook::search_index(&[])).unwrap();
    let entries = index.as_array().unwrap();
    let found = entries.iter().find(|entry| entry[2] == "/guide/operating#suppressed-targets").unwrap();
    assert_eq!(found[1], "Operating Tidings");
    assert!(found[3].as_str().unwrap().contains("suppress"), "{found}");
}
