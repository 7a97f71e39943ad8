//! The index that the search in the pages loads.

use serde_json::{Value, json};

use crate::guide::pages;
use crate::reference::Operation;

/// Pages whose sections would hide those of the guides.
const WITHOUT_TEXT: [&str; 1] = ["changelog"];

/// Builds the index: for each operation and each section of the guides an array of heading, page, URL and text.
pub fn index(operations: &[Operation<'_>]) -> String {
    let mut entries: Vec<Value> = operations.iter().map(entry).collect();
    for page in pages() {
        let (title, url) = (page.title(), page.url());
        if page.is_decision() || WITHOUT_TEXT.contains(&page.name().as_str()) {
            entries.push(json!([title, "", url, ""]));
            continue;
        }
        for section in page.rendered().sections {
            let text = section.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_first = section.level == 1;
            let url = if is_first { url.clone() } else { format!("{url}#{}", section.anchor) };
            entries.push(json!([section.heading, if is_first { "" } else { title }, url, text]));
        }
    }
    Value::from(entries).to_string()
}

fn entry(operation: &Operation<'_>) -> Value {
    let route = format!("{} {}", operation.method, operation.path);
    json!([operation.title(), route, format!("/docs#{}", operation.id), operation.description()])
}
