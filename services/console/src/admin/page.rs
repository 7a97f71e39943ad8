//! `/v1/admin/docs`: the OpenAPI document as a page.

use askama::Template;
use serde_json::Value;

use super::document::ROOT;
use super::routes::TAGS;

#[derive(Template)]
#[template(path = "admin.html")]
struct AdminPage<'a> {
    base: &'a str,
    version: &'a str,
    sections: Vec<Section<'a>>,
}

struct Section<'a> {
    tag: &'a str,
    about: &'a str,
    calls: Vec<Shown<'a>>,
}

impl Section<'_> {
    fn title(&self) -> String {
        let mut letters = self.tag.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }
}

struct Shown<'a> {
    id: &'a str,
    method: String,
    path: &'a str,
    summary: &'a str,
    description: &'a str,
    role: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    body: Option<String>,
    answer: Option<String>,
}

/// Renders the page.
pub(super) fn render(base: &str, version: &str, document: &Value) -> askama::Result<String> {
    let sections = TAGS.iter().map(|(tag, about)| Section { tag, about, calls: calls(document, tag) });
    AdminPage { base, version, sections: sections.collect() }.render()
}

fn calls<'a>(document: &'a Value, tag: &str) -> Vec<Shown<'a>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, calls)| {
        calls.as_object().into_iter().flatten().map(move |(method, call)| (path, method, call))
    });
    let of_tag = all.filter(|(_, _, call)| call["tags"][0] == tag);
    of_tag.map(|(path, method, call)| shown(document, (path, method), call)).collect()
}

fn shown<'a>(document: &'a Value, (path, method): (&'a str, &str), call: &'a Value) -> Shown<'a> {
    let text = |key: &str| call[key].as_str().unwrap_or_default();
    let own = call["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|parameter| Some((parameter["name"].as_str()?, parameter["description"].as_str()?)));
    let success = call["responses"].as_object().into_iter().flatten().next();
    Shown {
        id: text("operationId"),
        method: method.to_uppercase(),
        path: path.strip_prefix(ROOT).unwrap_or(path),
        summary: text("summary"),
        description: text("description"),
        role: text("x-least-role"),
        parameters: own.collect(),
        body: schema(&call["requestBody"]).map(|name| example(document, name)),
        answer: success.and_then(|(_, success)| schema(success)).map(|name| members(document, name)),
    }
}

/// Returns the name of the schema of a body.
fn schema(body: &Value) -> Option<&str> {
    body["content"]["application/json"]["schema"]["$ref"].as_str()?.rsplit('/').next()
}

fn example(document: &Value, name: &str) -> String {
    let example = &document["components"]["schemas"][name]["example"];
    if example.is_null() { members(document, name) } else { example.to_string() }
}

/// Lists the members of a schema.
fn members(document: &Value, name: &str) -> String {
    let schema = &document["components"]["schemas"][name];
    let members = schema["properties"].as_object();
    let names: Vec<&str> = members.into_iter().flatten().map(|(member, _)| member.as_str()).collect();
    format!("{name} {{ {} }}", names.join(", "))
}
