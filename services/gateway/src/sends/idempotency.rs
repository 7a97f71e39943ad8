//! The header `Idempotency-Key`, and the digest that decides whether two bodies are equal.

use actix_web::HttpRequest;
use credentials::secrets;
use domain::Problem;
use domain::request::is_idempotency_key;
use serde_json::{Number, Value};

/// Returns the value of the header `Idempotency-Key`. None if the header is missing or invalid. An invalid header also adds a
/// problem.
pub(crate) fn header_key(request: &HttpRequest, problems: &mut Vec<Problem>) -> Option<String> {
    const NAME: &str = "Idempotency-Key";
    let mut values = request.headers().get_all("idempotency-key");
    let value = values.next()?;
    let problem = if values.any(|other| other != value) {
        Problem::new(NAME, "repeated", "Idempotency-Key was sent with different values")
    } else if let Some(key) = value.to_str().ok().filter(|key| is_idempotency_key(key)) {
        return Some(key.to_owned());
    } else {
        Problem::new(NAME, "invalid_character", "Idempotency-Key must have 1 to 255 visible ASCII characters")
    };
    problems.push(problem);
    None
}

/// Computes the SHA-256 digest of a body in canonical form. Equal JSON has equal digests, whatever its whitespace and the order
/// of its members.
pub(crate) fn digest(body: &Value) -> [u8; 32] {
    let mut canonical = Vec::with_capacity(1024);
    write(body, &mut canonical);
    secrets::sha256(&canonical)
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Number(number) => out.extend_from_slice(canonical_number(number).as_bytes()),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                write(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (key, value) in members {
                write_text(key, out);
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Writes the length of a text before the text itself. The length separates adjacent texts, so the text needs no escaping.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(&text.len().to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Formats a number so that equal numbers, such as `1.0` and `1`, have the same text.
#[allow(clippy::cast_possible_truncation, reason = "only whole numbers within 53 bits are converted")]
fn canonical_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
            (float as i64).to_string()
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str};

    use super::digest;

    fn of(text: &str) -> [u8; 32] {
        digest(&from_str::<Value>(text).unwrap())
    }

    #[test]
    fn equal_json_has_equal_digests_and_different_json_different_ones() {
        assert_eq!(of(r#"{"a": 1, "b": [true, null]}"#), of(r#"{"b":[true,null],"a":1.0}"#));
        assert_eq!(of(r#""\u00e9""#), of(r#""é""#));
        let different = [
            "{}",
            "[]",
            "null",
            "0",
            "1",
            "1.5",
            "-1",
            "\"\"",
            "\"1\"",
            "[[]]",
            "[1,2]",
            "[2,1]",
            "[12]",
            r#"{"a":"b"}"#,
            r#"{"ab":""}"#,
            r#"{"a":{}}"#,
            r#"["a","b"]"#,
            r#"["ab"]"#,
            "false",
            "true",
        ];
        for (index, one) in different.iter().enumerate() {
            for other in &different[index + 1..] {
                assert_ne!(of(one), of(other), "{one} and {other}");
            }
        }
    }
}
