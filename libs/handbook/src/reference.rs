//! The API reference, rendered from the OpenAPI document.

mod answers;
mod example;
mod fields;
mod operation;
mod schema;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::highlight;
use crate::layout::{Frame, Site, escape};
use crate::markdown;

pub use operation::{Operation, linked, missing_guides};
use schema::Document;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Lists the operations in the order of the document. An alias (`x-alias-of`) is part of the operation that it stands for.
pub fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let calls =
        paths.flat_map(|(path, calls)| METHODS.iter().map(move |method| (path, *method, calls.get(*method))));
    let mut aliases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut operations = Vec::new();
    for (path, method, value) in calls {
        let Some(value) = value else { continue };
        let method = method.to_uppercase();
        match value["x-alias-of"].as_str() {
            Some(id) => aliases.entry(id).or_default().push(format!("{method} {path}")),
            None => operations.push(Operation::new(document, method, path, value)),
        }
    }
    for operation in &mut operations {
        operation.aliases = aliases.remove(operation.id).unwrap_or_default();
    }
    operations
}

/// Renders the page.
pub fn render(document: &Value) -> String {
    let operations = operations(document);
    let tags: Vec<(&str, &str)> =
        document["tags"].as_array().into_iter().flatten().map(name_and_description).collect();
    let mut main = introduction(document);
    let mut navigation = "<h2>About</h2><ul><li><a href=\"#about\">Conventions</a></li>\
        <li><a href=\"#authentication\">Authentication</a></li><li><a href=\"#errors\">Errors</a></li></ul>"
        .to_owned();
    for (tag, description) in tags {
        // The document sorts paths by their letters. Paths outside of the API come last.
        let mut of_tag: Vec<_> = operations.iter().filter(|operation| operation.tag == tag).collect();
        of_tag.sort_by_key(|operation| !operation.path.starts_with("/v3/"));
        navigation.push_str(&format!("<h2>{}</h2><ul>", escape(&capitalised(tag))));
        main.push_str(&format!(
            "<section class=\"tag\"><h2 id=\"tag-{tag}\">{}</h2><p>{}</p></section>\n",
            escape(&capitalised(tag)),
            markdown::inline(description)
        ));
        for operation in of_tag {
            navigation.push_str(&format!(
                "<li><a href=\"#{}\"><span>{}</span><span class=\"m {2}\">{2}</span></a></li>",
                operation.id,
                escape(operation.title()),
                operation.method.to_lowercase()
            ));
            main.push_str(&operation.html());
        }
        navigation.push_str("</ul>");
    }
    Frame {
        title: "API reference · Tidings",
        description: "Every call of the Tidings API, with its parameters, answers, errors and an example.",
        kind: "reference",
        navigation: &navigation,
        main: &main,
        contents: "",
        site: Site::WithReference,
    }
    .html()
}

fn name_and_description(tag: &Value) -> (&str, &str) {
    (tag["name"].as_str().unwrap_or_default(), tag["description"].as_str().unwrap_or_default())
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn introduction(document: &Value) -> String {
    let about = markdown::render(document["info"]["description"].as_str().unwrap_or_default(), &|url| {
        Some(url.to_owned())
    });
    let version = escape(document["info"]["version"].as_str().unwrap_or_default());
    format!(
        "<section class=\"op\" id=\"about\"><div class=\"text\"><h1>API reference</h1>\n{}\
         <p class=\"meta\">Version {version} · <a href=\"/openapi.json\">OpenAPI document</a> · <a href=\"/guide/api\">Using the API</a></p>\
         </div>{}</section>\n{}{}",
        about.html,
        credentials_form(document),
        authentication(document),
        errors(document),
    )
}

/// Form for the reader's own credentials, which the script puts into the examples. They stay in the browser.
fn credentials_form(document: &Value) -> String {
    let input = |scheme: &str, variable: &str, label: &str| {
        let header = document["components"]["securitySchemes"][scheme]["name"].as_str().unwrap_or_default();
        format!(
            "<label>{label}<input data-fills=\"{variable}\" placeholder=\"${variable}\" autocomplete=\"off\" \
             spellcheck=\"false\"><small>{}</small></label>",
            escape(header)
        )
    };
    format!(
        "<div class=\"code\"><form class=\"yours\" hidden><h2>Your credentials</h2><p>The examples on this page use them. They stay in \
         this browser tab.</p>{}{}{}</form></div>",
        input("apiKey", "KEY", "API key"),
        input("apiSecret", "SECRET", "API secret"),
        input("userId", "USER", "User")
    )
}

fn authentication(document: &Value) -> String {
    let none = Map::new();
    let schemes = document["components"]["securitySchemes"].as_object().unwrap_or(&none);
    let shared: Vec<_> =
        document["components"]["parameters"].as_object().into_iter().flat_map(Map::values).collect();
    let mut rows = String::new();
    for scheme in schemes.values() {
        let name = scheme["name"].as_str().unwrap_or("Authorization: Bearer");
        let about = markdown::inline(scheme["description"].as_str().unwrap_or_default());
        rows.push_str(&format!("<dt><code>{}</code></dt><dd>{about}</dd>", escape(name)));
    }
    format!(
        "<section class=\"op\" id=\"authentication\"><div class=\"text\"><h2>Authentication</h2><dl class=\"callers\">\
         <dt>Backend</dt><dd>The app's API key with its API secret.</dd>\
         <dt>User</dt><dd>The app's API key with the identifier of the user; in secure mode, a token that the app signed. \
         An app's backend acts for a user with its secret and the identifier of the user.</dd></dl>\
         <p>Each operation states which of them may call it. <a href=\"/guide/api#lock-it-down-secure-mode\">Secure mode</a> \
         describes tokens.</p><h3>Headers with credentials</h3><dl class=\"fields\">{rows}</dl>\
         <h3>Parameters of most operations</h3>{}</div></section>\n",
        Document(document).parameters(&shared)
    )
}

fn errors(document: &Value) -> String {
    let view = Document(document);
    let none = Map::new();
    let shared = document["components"]["responses"].as_object().unwrap_or(&none);
    let mut by_status: BTreeMap<&str, &str> = BTreeMap::new();
    for calls in document["paths"].as_object().into_iter().flat_map(Map::values) {
        for operation in calls.as_object().into_iter().flat_map(Map::values) {
            for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                let name = answer["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
                if let Some(found) = name.and_then(|name| shared.get(name)) {
                    by_status.insert(status, found["description"].as_str().unwrap_or_default());
                }
            }
        }
    }
    let mut rows = String::new();
    for (status, about) in by_status {
        rows.push_str(&format!(
            "<dt id=\"error-{status}\"><code>{status}</code></dt><dd>{}</dd>",
            markdown::inline(about)
        ));
    }
    let example = view.example_of(&document["components"]["schemas"]["Problems"]);
    let example = serde_json::to_string_pretty(&example).unwrap_or_default();
    format!(
        "<section class=\"op\" id=\"errors\"><div class=\"text\"><h2>Errors</h2><p>The body of an error has a <code>code</code> for \
         programs and a <code>message</code> for people. Every operation may answer with the errors that it lists.</p>\
         <dl class=\"fields\">{rows}</dl></div><div class=\"code\"><figure><figcaption>400</figcaption>\
         <pre tabindex=\"0\"><code>{}</code></pre></figure></div></section>\n",
        highlight::json(&example)
    )
}
