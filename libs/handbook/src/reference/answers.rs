//! The answers and errors of an operation.

use serde_json::Value;

use super::fields::Side;
use super::schema::Document;
use crate::layout::escape;
use crate::markdown;

impl<'a> Document<'a> {
    /// Lists the answers that are no errors, each with its members.
    pub(crate) fn answers(self, responses: &'a Value) -> String {
        let mut out = String::new();
        for (status, answer) in statuses(responses).filter(|(status, _)| !is_error(status)) {
            let about = markdown::inline(answer["description"].as_str().unwrap_or_default());
            out.push_str(&format!("<dt><code>{}</code></dt><dd><p>{about}</p>", escape(status)));
            out.push_str(&own_headers(answer));
            let members = content(answer).map(|(_, body)| self.members(&body["schema"], Side::Answer));
            if let Some(members) = members.filter(|members| !members.is_empty()) {
                out.push_str(&format!(
                    "<details><summary>Members of the answer</summary>{members}</details>"
                ));
            }
            out.push_str("</dd>");
        }
        format!("<h4>Answers</h4><dl class=\"fields\">{out}</dl>")
    }

    /// Lists the errors: those with a reason of their own in words, then the others as links to the shared list.
    pub(crate) fn errors(self, responses: &'a Value) -> String {
        let (mut own, mut shared) = (String::new(), String::new());
        for (status, answer) in statuses(responses).filter(|(status, _)| is_error(status)) {
            if answer["$ref"].is_string() {
                shared.push_str(&format!("<a href=\"#error-{status}\">{status}</a> "));
            } else {
                let about = markdown::inline(answer["description"].as_str().unwrap_or_default());
                own.push_str(&format!("<dt><code>{}</code></dt><dd><p>{about}</p></dd>", escape(status)));
            }
        }
        if own.is_empty() && shared.is_empty() {
            return String::new();
        }
        let own = if own.is_empty() { own } else { format!("<dl class=\"fields\">{own}</dl>") };
        let shared =
            if shared.is_empty() { shared } else { format!("<p class=\"chips\">{}</p>", shared.trim_end()) };
        format!("<h4>Errors</h4>{own}{shared}")
    }

    /// Returns the status and the example of the first successful answer with a body.
    pub(crate) fn example_of_answer(self, responses: &'a Value) -> Option<(&'a str, &'a str, Value)> {
        let answers = statuses(responses).filter(|(status, _)| status.starts_with('2'));
        let examples = answers.filter_map(|(status, answer)| {
            let (media, body) = content(answer)?;
            let example = body.get("example").cloned().unwrap_or_else(|| self.example_of(&body["schema"]));
            Some((status, media, example))
        });
        // If several answers have a body, the last is the usual one: the first is that of a dry run.
        examples.last()
    }
}

fn statuses(responses: &Value) -> impl Iterator<Item = (&str, &Value)> {
    responses.as_object().into_iter().flatten().map(|(status, answer)| (status.as_str(), answer))
}

fn is_error(status: &str) -> bool {
    status.starts_with(['4', '5'])
}

/// Returns the media type and the content of a body. JSON comes first.
pub(crate) fn content(body: &Value) -> Option<(&str, &Value)> {
    let content = body["content"].as_object()?;
    let json = content.get_key_value("application/json");
    json.or_else(|| content.iter().next()).map(|(media, content)| (media.as_str(), content))
}

/// Lists the headers of an answer that only this operation sends.
fn own_headers(answer: &Value) -> String {
    let mut out = String::new();
    for (name, header) in answer["headers"].as_object().into_iter().flatten() {
        if header["$ref"].is_null() {
            let about = markdown::inline(header["description"].as_str().unwrap_or_default());
            out.push_str(&format!("<p>Header <code>{}</code>: {about}</p>", escape(name)));
        }
    }
    out
}
