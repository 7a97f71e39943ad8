//! Lists of members and parameters.

use serde_json::Value;

use super::schema::{Document, base_type};
use crate::layout::escape;
use crate::markdown;

/// Depth of nested lists. Deeper members are in the example.
const DEEPEST: usize = 5;
/// Patterns of up to this length are shown; longer ones are for programs.
const LONGEST_PATTERN: usize = 40;
/// Bounds of whole numbers that only say that JSON can carry the number.
const WIDEST: u64 = 1 << 53;

/// Requests and answers differ in what is worth saying.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Answer,
}

/// One row of a list.
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    description: &'a str,
    is_required: bool,
    is_deprecated: bool,
}

impl<'a> Document<'a> {
    /// Lists parameters of one place: path, query or header.
    pub(crate) fn parameters(self, parameters: &[&'a Value]) -> String {
        let mut out = String::new();
        for parameter in parameters {
            let field = Field {
                name: parameter["name"].as_str().unwrap_or_default(),
                schema: &parameter["schema"],
                description: parameter["description"].as_str().unwrap_or_default(),
                is_required: parameter["required"] == true,
                is_deprecated: parameter["deprecated"] == true,
            };
            self.field(&field, Side::Request, DEEPEST, &mut out);
        }
        format!("<dl class=\"fields\">{out}</dl>")
    }

    /// Lists the members of a body; empty if it has none.
    pub(crate) fn members(self, schema: &'a Value, side: Side) -> String {
        self.members_at(schema, side, 0)
    }

    fn members_at(self, schema: &'a Value, side: Side, depth: usize) -> String {
        let mut out = String::new();
        for object in self.objects(schema) {
            let required = object["required"].as_array();
            let members = object["properties"].as_object().into_iter().flatten();
            let mut fields: Vec<_> = members
                .map(|(name, member)| Field {
                    name,
                    schema: member,
                    description: "",
                    is_required: required.is_some_and(|names| names.iter().any(|known| known == name)),
                    is_deprecated: member["deprecated"] == true,
                })
                .collect();
            fields.sort_by_key(|field| (!field.is_required, field.is_deprecated));
            fields.iter().for_each(|field| self.field(field, side, depth, &mut out));
        }
        if out.is_empty() { out } else { format!("<dl class=\"fields\">{out}</dl>") }
    }

    /// Returns the objects with members within a schema: itself, the items of an array, or its choices.
    fn objects(self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.shape(schema).schema;
        if schema["properties"].is_object() {
            return vec![schema];
        }
        if base_type(schema) == "array" {
            return self.objects(&schema["items"]);
        }
        self.choices(schema).flat_map(|choice| self.objects(choice)).collect()
    }

    fn field(self, field: &Field<'a>, side: Side, depth: usize, out: &mut String) {
        let shape = self.shape(field.schema);
        out.push_str(&format!(
            "<dt><code>{}</code> <span>{}",
            escape(field.name),
            escape(&self.type_name(field.schema))
        ));
        if side == Side::Answer && shape.is_nullable {
            out.push_str(" or null");
        }
        out.push_str("</span>");
        if side == Side::Request && field.is_required {
            out.push_str(" <em>required</em>");
        }
        if field.is_deprecated {
            out.push_str(" <del>deprecated</del>");
        }
        out.push_str("</dt><dd>");
        let description = if field.description.is_empty() { shape.description } else { field.description };
        if !description.is_empty() {
            out.push_str(&format!("<p>{}</p>", markdown::inline(description)));
        }
        let limits = limits(shape.schema, description, side);
        if !limits.is_empty() {
            out.push_str(&format!("<p class=\"limits\">{}</p>", limits.join(" · ")));
        }
        if depth < DEEPEST {
            let members = self.members_at(field.schema, side, depth + 1);
            if !members.is_empty() {
                out.push_str(&format!(
                    "<details><summary>Members of <code>{}</code></summary>{members}</details>",
                    escape(field.name)
                ));
            }
        }
        out.push_str("</dd>");
    }
}

/// Returns the limits of a value that its description does not state.
fn limits(schema: &Value, description: &str, side: Side) -> Vec<String> {
    let mut limits = Vec::new();
    let items = if base_type(schema) == "array" { &schema["items"] } else { schema };
    if let Some(values) = schema["enum"].as_array().or_else(|| items["enum"].as_array()) {
        let values = values.iter().map(|value| format!("<code>{}</code>", escape(&text(value))));
        limits.push(values.collect::<Vec<_>>().join(" "));
    }
    if side == Side::Answer {
        return limits;
    }
    if let Some(most) = schema["maxLength"].as_u64()
        && !description.contains(&format!("{most} bytes"))
    {
        limits.push(format!("at most {} characters", grouped(most)));
    }
    if let Some(least) = schema["minLength"].as_u64().filter(|least| *least > 0)
        && !description.contains("bytes")
    {
        limits.push(format!("at least {least} {}", if least == 1 { "character" } else { "characters" }));
    }
    let bound = |key: &str| schema[key].as_u64().filter(|bound| *bound < WIDEST - 1);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => limits.push(format!("{} to {}", grouped(least), grouped(most))),
        (None, Some(most)) => limits.push(format!("at most {}", grouped(most))),
        (Some(least), None) if least > 0 => limits.push(format!("at least {}", grouped(least))),
        _ => {}
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        limits.push(format!("at most {} items", grouped(most)));
    }
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| is_readable(pattern)) {
        limits.push(format!("matches <code>{}</code>", escape(pattern)));
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        limits.push(format!("default <code>{}</code>", escape(&text(default))));
    }
    limits
}

/// Patterns that exclude control characters are in words in the description.
fn is_readable(pattern: &str) -> bool {
    pattern.len() <= LONGEST_PATTERN && !pattern.contains("\\u")
}

/// Returns a string without its quotes.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Writes a number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Side, grouped, limits};

    #[test]
    fn limits_of_a_request_are_in_words() {
        let schema = json!({"type": "array", "maxItems": 10_000, "items": {"enum": ["a", "b"]}});
        assert_eq!(
            limits(&schema, "", Side::Request),
            ["<code>a</code> <code>b</code>", "at most 10,000 items"]
        );
        let text = json!({"type": "string", "maxLength": 255, "minLength": 1, "pattern": "^[a-z]$"});
        assert_eq!(limits(&text, "At most 255 bytes.", Side::Request), ["matches <code>^[a-z]$</code>"]);
        let id = json!({"type": "integer", "minimum": 0, "maximum": (1_u64 << 53) - 1});
        assert_eq!(limits(&id, "", Side::Request), Vec::<String>::new());
        assert_eq!(limits(&json!({"minimum": 1, "maximum": 100}), "", Side::Request), ["1 to 100"]);
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
