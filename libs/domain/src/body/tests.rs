//! Each limit of a body has one place, from which the reader and the schema take it.

use super::kind::{AnyText, Deprecated, Filled, Flag, Icon, Identifier, Line, Link, List, Nested, Text};
use super::*;

crate::body! {
    /// A body.
    struct Sample {
        required title as "theTitle": Line<8>,
        /// A text.
        optional text: Text<8>,
        optional filled: Filled<8>,
        optional link: Link<8>,
        optional icon: Icon<8>,
        worded list: List<AnyText, 2>,
        nullable state: Flag,
        conditional identifier: Identifier,
        optional inner: Deprecated<Nested<Inner>>,
    }
    example {"theTitle": "x"}
}

crate::body! {
    struct Inner {
        optional flag: Flag,
        ..rest::AnyMembers
    }
}

fn sample(value: Value) -> (Sample, Vec<Problem>) {
    let mut problems = Vec::new();
    (Sample::open("", value, &mut problems).unwrap(), problems)
}

fn found(problems: &[Problem]) -> Vec<(&str, &str)> {
    problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect()
}

#[test]
fn members_are_read_under_their_json_names() {
    let all = json!({
        "theTitle": "t", "text": "", "filled": "f", "link": "/l", "icon": "i", "list": ["a"], "state": true,
        "identifier": "ada", "inner": {"flag": false, "other": 1},
    });
    let (mut body, mut problems) = sample(all);
    assert_eq!(body.title(&mut problems).as_deref(), Some("t"));
    assert_eq!(body.text(&mut problems).as_deref(), Some(""));
    assert_eq!(body.filled(&mut problems).as_deref(), Some("f"));
    assert_eq!(body.link(&mut problems).as_deref(), Some("/l"));
    assert_eq!(body.icon(&mut problems).as_deref(), Some("i"));
    assert_eq!(body.list(&mut problems), Some(vec![json!("a")]));
    assert_eq!(body.state(&mut problems), Some(true));
    assert_eq!(body.identifier(&mut problems).as_deref(), Some("ada"));
    let mut inner = body.inner(&mut problems).unwrap();
    assert_eq!(inner.flag(&mut problems), Some(false));
    assert_eq!(inner.fields.keys(), ["other"]);
    body.fields.finish(true, &mut problems);
    assert_eq!(problems, []);
}

#[test]
fn only_a_required_member_is_a_problem_of_the_reader_if_it_is_missing() {
    let (mut body, mut problems) = sample(json!({"theTitle": null}));
    assert_eq!(body.title(&mut problems), None);
    assert_eq!(body.list(&mut problems), None);
    assert_eq!(body.state(&mut problems), None);
    assert_eq!(body.identifier(&mut problems), None);
    assert_eq!(found(&problems), [("theTitle", "required")]);
}

/// Four characters of eight bytes are accepted, and five of ten bytes are not, although `maxLength` allows eight characters.
#[test]
fn lengths_are_counted_in_bytes_and_the_schema_says_so() {
    let schema = Sample::definition(&mut Schemas::new());
    for key in ["theTitle", "text", "filled", "link", "icon"] {
        let read = |text: &str| {
            let (mut body, mut problems) = sample(json!({key: text, "theTitle": text}));
            let _ = match key {
                "theTitle" => body.title(&mut problems),
                "text" => body.text(&mut problems),
                "filled" => body.filled(&mut problems),
                "link" => body.link(&mut problems),
                _ => body.icon(&mut problems),
            };
            problems
        };
        assert_eq!(read("éééé"), [], "{key}");
        assert_eq!(found(&read("ééééé")), [(key, "too_long")]);
        let member = &schema["properties"][key];
        assert_eq!(member["maxLength"], 8, "{key}");
        let about = member["description"].as_str().unwrap();
        assert!(about.ends_with("At most 8 bytes of UTF-8."), "{key}: {about}");
    }
}

#[test]
fn schemas_state_what_the_reader_requires() {
    let mut schemas = Schemas::new();
    assert_eq!(Sample::schema(&mut schemas), json!({"$ref": "#/components/schemas/Sample"}));
    let schema = &schemas["Sample"];
    assert_eq!(schema["required"], json!(["theTitle", "list", "state"]));
    assert_eq!(schema["description"], "A body.");
    assert_eq!(schema["example"], json!({"theTitle": "x"}));
    let member = |key: &str| schema["properties"][key].clone();
    assert_eq!(member("theTitle")["minLength"], 1);
    let about = "A text. At most 8 bytes of UTF-8.";
    assert_eq!(member("text"), json!({"type": ["string", "null"], "maxLength": 8, "description": about}));
    assert_eq!(member("list"), json!({"type": "array", "items": {"type": "string"}, "maxItems": 2}));
    assert_eq!(member("state"), json!({"type": ["boolean", "null"]}));
    assert_eq!(member("identifier"), json!({"$ref": "#/components/schemas/Identifier"}));
    let inner = json!({"$ref": "#/components/schemas/Inner", "deprecated": true});
    assert_eq!(member("inner"), json!({"oneOf": [inner, {"type": "null"}]}));
    assert_eq!(schemas["Inner"]["additionalProperties"], json!({}));
}
