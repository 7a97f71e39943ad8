//! Finds secrets in the settings that are stored unencrypted: the URLs, the body and the plain headers.

use domain::Problem;
use reqwest::Url;
use serde_json::Value;

/// A parameter, member or header counts as a secret if its name contains one of these words. Names are compared in
/// lower case and without separators.
const WORDS: [&str; 10] = [
    "apikey",
    "accesskey",
    "authkey",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "authorization",
    "signature",
];
/// Words that count only if they are the whole name.
const NAMES: [&str; 5] = ["key", "pass", "auth", "cookie", "sig"];

/// Rejects a value that `tidings provider list` would show although it seems to be a secret.
pub(super) fn check(settings: &Value) -> Result<(), Vec<Problem>> {
    let text = |member: &str| settings.get(member).and_then(Value::as_str).unwrap_or_default();
    let mut problems = Vec::new();
    for member in ["url", "probeUrl"] {
        let url = Url::parse(text(member));
        if url.is_ok_and(|url| url.query_pairs().any(|(name, value)| is_exposed(&name, &value))) {
            problems.push(problem(member));
        }
    }
    let in_body = match serde_json::from_str::<Value>(text("body")) {
        Ok(json) => is_exposed_in(&json),
        Err(_) => url::form_urlencoded::parse(text("body").as_bytes())
            .any(|(name, value)| is_exposed(&name, &value)),
    };
    if in_body {
        problems.push(problem("body"));
    }
    let headers = settings.get("headers").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in headers {
        if is_exposed(name, value.as_str().unwrap_or_default()) {
            let path = format!("settings.headers.{name}");
            let message =
                format!("{path} looks like a secret: move it to settings.secretHeaders, which are encrypted");
            problems.push(Problem::new(path, "secret_in_the_clear", message));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn problem(member: &str) -> Problem {
    let path = format!("settings.{member}");
    let message = format!(
        "{path} seems to contain a key or a password, which would be shown: move it to settings.secrets, and write \
         {{secret:NAME}} in its place"
    );
    Problem::new(path, "secret_in_the_clear", message)
}

fn is_exposed_in(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| match value {
            Value::String(text) => is_exposed(name, text),
            value => is_exposed_in(value),
        }),
        Value::Array(items) => items.iter().any(is_exposed_in),
        _ => false,
    }
}

/// Returns true if the name indicates a secret and the value is literal, without a placeholder.
fn is_exposed(name: &str, value: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let is_secret = NAMES.contains(&name.as_str()) || WORDS.iter().any(|word| name.contains(word));
    is_secret && !value.is_empty() && !value.contains('{')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(settings: &Value) -> Vec<String> {
        check(settings).err().unwrap_or_default().into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn a_key_in_url_body_or_header_is_refused_with_the_fix() {
        let settings = json!({
            "url": "https://sms.example.com/send?api_key=abc&to={to}", "probeUrl": "https://sms.example.com/?Token=x",
            "body": "{\"auth\":{\"password\":\"hunter2\"},\"to\":\"{to}\"}", "headers": {"X-Api-Key": "abc"},
        });
        let expected = ["settings.url", "settings.probeUrl", "settings.body", "settings.headers.X-Api-Key"];
        assert_eq!(fields(&settings), expected);
        assert!(check(&settings).err().unwrap_or_default()[0].message.contains("{secret:NAME}"));
        assert_eq!(fields(&json!({"url": "https://a/", "body": "to={to}&apikey=abc"})), ["settings.body"]);
    }

    #[test]
    fn placeholders_and_other_values_pass() {
        let settings = json!({
            "url": "https://sms.example.com/send?key={secret:key}&keyword=x&to={to}",
            "body": "{\"token\":\"{secret:token}\",\"keys\":\"7\",\"to\":\"{to}\"}", "headers": {"accept": "*/*"},
        });
        assert_eq!(fields(&settings), Vec::<String>::new());
    }
}
