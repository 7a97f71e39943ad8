//! One operation of the reference.

use serde_json::Value;

use super::answers::content;
use super::fields::{Side, text};
use super::schema::Document;
use crate::guide;
use crate::highlight;
use crate::layout::escape;
use crate::markdown;

/// Origin in examples. The script of the page replaces it by that of the gateway.
const ORIGIN: &str = "http://localhost:8080";

/// Guides about the operations of a tag, or of one operation, by its id: page and anchor.
const GUIDES: [(&str, &[(&str, &str)]); 16] = [
    ("sending", &[("api", "send"), ("api", "use-a-template"), ("guarantees", "")]),
    ("requests", &[("api", "track-a-send"), ("webhooks", "")]),
    ("inbox", &[("api", "show-an-inbox"), ("inbox", "")]),
    ("streamInbox", &[("realtime", "")]),
    ("openSocket", &[("realtime", "")]),
    ("profile", &[("api", "addresses-and-phone-numbers")]),
    ("preferences", &[("inbox", "")]),
    ("categories", &[("api", "send")]),
    ("topics", &[("topics", "")]),
    ("devices", &[("clients-web-push", "")]),
    ("users", &[("api", "addresses-and-phone-numbers"), ("limits", "quotas")]),
    ("eraseUser", &[("erasure", "")]),
    ("callbacks", &[("providers", "twilio")]),
    ("getClientFile", &[("inbox", "")]),
    ("getClientFileOfRelease", &[("inbox", "")]),
    ("isReady", &[("operating", "")]),
];

/// An operation of the API with its aliases.
pub struct Operation<'a> {
    document: Document<'a>,
    value: &'a Value,
    pub(crate) id: &'a str,
    pub(crate) method: String,
    pub(crate) path: &'a str,
    pub(crate) tag: &'a str,
    /// Methods and paths that do the same.
    pub(crate) aliases: Vec<String>,
}

impl<'a> Operation<'a> {
    pub(super) fn new(document: &'a Value, method: String, path: &'a str, value: &'a Value) -> Operation<'a> {
        Operation {
            document: Document(document),
            value,
            id: value["operationId"].as_str().unwrap_or_default(),
            method,
            path,
            tag: value["tags"][0].as_str().unwrap_or_default(),
            aliases: Vec::new(),
        }
    }

    /// First clause of the summary.
    pub(crate) fn title(&self) -> &'a str {
        let summary = self.summary();
        let end = [". ", ", ", ": "].iter().filter_map(|end| summary.find(end)).min();
        end.and_then(|end| summary.get(..end)).unwrap_or(summary).trim_end_matches('.')
    }

    /// The description; it begins with what the title leaves out of the summary.
    pub(crate) fn description(&self) -> String {
        let description = self.value["description"].as_str().unwrap_or_default();
        let rest = self.summary().strip_prefix(self.title()).unwrap_or_default();
        let rest = rest.strip_prefix(". ").unwrap_or(if rest.len() > 1 { self.summary() } else { "" });
        format!("{rest}\n\n{description}")
    }

    fn summary(&self) -> &'a str {
        self.value["summary"].as_str().unwrap_or(self.id)
    }

    pub(super) fn html(&self) -> String {
        let deprecated = if self.value["deprecated"] == true { " <del>deprecated</del>" } else { "" };
        let method = self.method.to_lowercase();
        let mut text = format!(
            "<h3><a href=\"#{0}\">{1}</a>{deprecated}</h3><p class=\"route\"><span class=\"m {method}\">{method}</span> \
             <code>{2}</code></p>",
            self.id,
            escape(self.title()),
            path_with_parameters(self.path),
        );
        text.push_str(&markdown::render(&self.description(), &|url| Some(url.to_owned())).html);
        text.push_str(&self.about());
        for (place, title) in [("path", "Path"), ("query", "Query"), ("header", "Headers")] {
            let parameters = self.own_parameters(place);
            if !parameters.is_empty() {
                text.push_str(&format!("<h4>{title}</h4>{}", self.document.parameters(&parameters)));
            }
        }
        text.push_str(&self.body());
        text.push_str(&self.document.answers(&self.value["responses"]));
        text.push_str(&self.document.errors(&self.value["responses"]));
        format!(
            "<section class=\"op\" id=\"{}\"><div class=\"text\">{text}</div><div class=\"code\">{}</div></section>\n",
            self.id,
            self.examples()
        )
    }

    /// Callers, aliases and guides.
    fn about(&self) -> String {
        let mut out = format!("<dl class=\"about\"><dt>Callers</dt><dd>{}</dd>", self.callers());
        if !self.aliases.is_empty() {
            let aliases = self.aliases.iter().map(|alias| format!("<code>{}</code>", escape(alias)));
            out.push_str(&format!("<dt>Also as</dt><dd>{}</dd>", aliases.collect::<Vec<_>>().join(", ")));
        }
        let guides: Vec<_> = self
            .guides()
            .into_iter()
            .map(|(url, title)| format!("<a href=\"{url}\">{}</a>", escape(&title)))
            .collect();
        if !guides.is_empty() {
            out.push_str(&format!("<dt>Guides</dt><dd>{}</dd>", guides.join(", ")));
        }
        out.push_str("</dl>");
        out
    }

    fn callers(&self) -> &'static str {
        match (self.is_for("apiSecret", false), self.is_for("userId", true)) {
            (true, true) => "<a href=\"#authentication\">backend or user</a>",
            (true, false) => "<a href=\"#authentication\">backend</a>",
            (false, true) => "<a href=\"#authentication\">user</a>, or backend for a user",
            (false, false) => "everyone, without credentials",
        }
    }

    /// Returns true if credentials with this scheme suffice, with or without the identifier of a user.
    fn is_for(&self, scheme: &str, with_user: bool) -> bool {
        let combinations = self.value["security"].as_array().into_iter().flatten();
        combinations.filter_map(Value::as_object).any(|combination| {
            combination.contains_key(scheme) && combination.contains_key("userId") == with_user
        })
    }

    /// Returns the URLs and titles of the guides about this operation.
    pub(crate) fn guides(&self) -> Vec<(String, String)> {
        let find = |key: &str| GUIDES.iter().find(|(known, _)| *known == key);
        let entries =
            find(self.id).or_else(|| find(self.tag)).map(|(_, entries)| *entries).unwrap_or_default();
        entries.iter().filter_map(|(page, anchor)| guide::link(page, anchor)).collect()
    }

    fn parameters(&self, place: &str) -> Vec<&'a Value> {
        let parameters = self.value["parameters"].as_array().into_iter().flatten();
        parameters
            .map(|parameter| self.document.resolve(parameter))
            .filter(|parameter| parameter["in"] == place)
            .collect()
    }

    /// Leaves out the parameters that many operations share; the introduction lists them.
    fn own_parameters(&self, place: &str) -> Vec<&'a Value> {
        let parameters = self.value["parameters"].as_array().into_iter().flatten();
        parameters.filter(|parameter| parameter["$ref"].is_null() && parameter["in"] == place).collect()
    }

    fn body(&self) -> String {
        let body = &self.value["requestBody"];
        let Some((media, content)) = content(body) else { return String::new() };
        let schema = &content["schema"];
        let presence = if body["required"] == true { "" } else { " <span>optional</span>" };
        let media = if media == "application/json" {
            String::new()
        } else {
            format!(" <span>{}</span>", escape(media))
        };
        let about = self.document.shape(schema).description;
        let about =
            if about.is_empty() { String::new() } else { format!("<p>{}</p>", markdown::inline(about)) };
        format!("<h4>Body{media}{presence}</h4>{about}{}", self.document.members(schema, Side::Request))
    }

    fn examples(&self) -> String {
        let mut out = format!(
            "<figure><figcaption>curl</figcaption><pre tabindex=\"0\"><code>{}</code></pre></figure>",
            self.curl()
        );
        if let Some((status, media, example)) = self.document.example_of_answer(&self.value["responses"])
            && media == "application/json"
        {
            let example = serde_json::to_string_pretty(&example).unwrap_or_default();
            out.push_str(&format!(
                "<figure><figcaption>{status}</figcaption><pre tabindex=\"0\"><code>{}</code></pre></figure>",
                highlight::json(&example)
            ));
        }
        out
    }

    /// Builds the command that makes the call, with variables for the credentials.
    fn curl(&self) -> String {
        let method = if self.method == "GET" { String::new() } else { format!("-X {} ", self.method) };
        let mut lines =
            vec![format!("curl {method}\"<var data-is=ORIGIN>{ORIGIN}</var>{}\"", escape(&self.url()))];
        let is_for_app = self.is_for("apiSecret", false);
        let is_for_user = !is_for_app && self.is_for("userId", true);
        if is_for_app || is_for_user {
            lines.push(self.header("apiKey", "KEY"));
        }
        if is_for_app {
            lines.push(self.header("apiSecret", "SECRET"));
        }
        if is_for_user {
            lines.push(self.header("userId", "USER"));
        }
        for parameter in self.parameters("header").iter().filter(|parameter| parameter["required"] == true) {
            let name = parameter["name"].as_str().unwrap_or_default();
            let example = text(&self.parameter_example(parameter));
            lines.push(format!("-H {}", escape(&quoted(&format!("{name}: {example}")))));
        }
        lines.extend(self.body_of_curl());
        lines.join(" \\\n  ")
    }

    fn header(&self, scheme: &str, variable: &str) -> String {
        let name =
            self.document.0["components"]["securitySchemes"][scheme]["name"].as_str().unwrap_or_default();
        format!("-H \"{}: <var data-is={variable}>${variable}</var>\"", escape(name))
    }

    fn body_of_curl(&self) -> Vec<String> {
        let Some((media, content)) = content(&self.value["requestBody"]) else { return Vec::new() };
        let example =
            content.get("example").cloned().unwrap_or_else(|| self.document.example_of(&content["schema"]));
        if media == "application/x-www-form-urlencoded" {
            let members = example.as_object().into_iter().flatten();
            return members
                .map(|(name, value)| {
                    format!("--data-urlencode {}", escape(&quoted(&format!("{name}={}", text(value)))))
                })
                .collect();
        }
        let body = serde_json::to_string_pretty(&example).unwrap_or_default().replace('\'', "'\\''");
        vec![format!("-H 'Content-Type: {media}'"), format!("-d '{}'", highlight::json(&body))]
    }

    /// Path with the examples of its parameters, and the required parameters of the query.
    fn url(&self) -> String {
        let mut url = self.path.to_owned();
        for parameter in self.parameters("path") {
            let name = parameter["name"].as_str().unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), &text(&self.parameter_example(parameter)));
        }
        let query = self.parameters("query");
        for (index, parameter) in query.iter().filter(|parameter| parameter["required"] == true).enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            url.push_str(&format!(
                "{separator}{}={}",
                parameter["name"].as_str().unwrap_or_default(),
                text(&self.parameter_example(parameter))
            ));
        }
        url
    }

    fn parameter_example(&self, parameter: &'a Value) -> Value {
        let stated = parameter.get("example").cloned();
        let example = stated.unwrap_or_else(|| self.document.example_of(&parameter["schema"]));
        if example == "text" { parameter["name"].clone() } else { example }
    }
}

/// Iterates over the tags and ids of operations for which there are guides.
pub fn linked() -> impl Iterator<Item = &'static str> {
    GUIDES.iter().map(|(key, _)| *key)
}

/// Returns the guides of the table that do not exist.
pub fn missing_guides() -> Vec<String> {
    let entries = GUIDES.iter().flat_map(|(_, entries)| *entries);
    let missing = entries.filter(|(page, anchor)| guide::link(page, anchor).is_none());
    missing.map(|(page, anchor)| format!("{page}#{anchor}")).collect()
}

/// Quotes text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Marks the parameters of a path.
fn path_with_parameters(path: &str) -> String {
    escape(path).replace('/', "/<wbr>").replace('{', "<i>{").replace('}', "}</i>")
}
