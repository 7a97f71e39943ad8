//! Checks that every message ever written stays readable. There is at least one golden file per type and version, and golden
//! files are never removed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use domain::event::DecodeError;
use domain::outcome::Blame;
use domain::{Envelope, Event};
use serde_json::{Value, json};

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_type_has_a_golden_file() {
    let found: BTreeSet<String> =
        golden_files().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let wanted: BTreeSet<String> = Event::KINDS.iter().map(|name| format!("{name}.v1.json")).collect();
    assert_eq!(found.intersection(&wanted).collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
}

#[test]
fn golden_messages_read_and_write_back_the_same() {
    for path in golden_files() {
        let text = fs::read_to_string(&path).unwrap();
        let envelope =
            Envelope::decode(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let written: Value = serde_json::from_slice(&envelope.encode().unwrap()).unwrap();
        let golden: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written, golden, "{}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A member that was added to a version later has a separate golden file, whose name contains the name of the member.
        let kind = envelope.event.kind();
        assert!(
            name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(".v1.")),
            "{name} holds a {kind}"
        );
    }
}

#[test]
fn unknown_types_newer_versions_and_malformed_messages_differ() {
    let message = |kind: &str, version: u16, data: Value| {
        let id = "018f3f6e-7c1a-7000-8000-000000000001";
        json!({"id": id, "type": kind, "v": version, "app": 1, "at": "2026-01-02T03:04:05.678Z", "sendId": null,
               "causedBy": null, "data": data})
        .to_string()
    };
    let decode = |text: String| Envelope::decode(text.as_bytes()).unwrap_err();
    assert!(matches!(decode(message("InboxItemPainted", 1, json!({}))), DecodeError::UnknownType(_)));
    let newer = decode(message("InboxItemSeen", 2, json!({"people": []})));
    assert!(
        matches!(&newer, DecodeError::Newer { kind, what } if kind == "InboxItemSeen" && what.contains("version 2"))
    );
    assert!(matches!(decode(message("InboxItemSeen", 1, json!({"user": "x"}))), DecodeError::Malformed(_)));
    assert!(matches!(decode("{".to_owned()), DecodeError::Malformed(_)));
}

/// Golden files, each with the JSON Pointer of an enum value in it.
const ENUMERATED: [(&str, &str); 8] = [
    ("DeliveryJob.v1.json", "/data/channel"),
    ("DeliverySettled.v1.json", "/data/channel"),
    ("DeliverySettled.v1.json", "/data/status"),
    ("DeliverySettled.v1.json", "/data/reason"),
    ("SendAccepted.v1.overrides.json", "/data/lane"),
    ("SendAccepted.v1.overrides.json", "/data/channels/1"),
    ("SendPlanned.v1.decided.json", "/data/decided/shapes/0/skips/1/0"),
    ("SendPlanned.v1.decided.json", "/data/decided/shapes/0/skips/1/1"),
];

/// Replaces the value at the JSON Pointer `place` in a golden message. Returns the error of decoding the result.
fn altered(name: &str, place: &str, value: Value) -> DecodeError {
    let path = golden_files().into_iter().find(|path| path.ends_with(name)).unwrap();
    let mut message: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    *message.pointer_mut(place).unwrap() = value;
    Envelope::decode(message.to_string().as_bytes()).unwrap_err()
}

#[test]
fn an_unknown_enum_value_anywhere_marks_a_message_of_a_newer_release() {
    let mut errors: Vec<_> =
        ENUMERATED.iter().map(|(name, place)| altered(name, place, json!("of_the_future"))).collect();
    errors.push(altered("DeliveryJob.v1.json", "/data/content", json!({"of_the_future": {}})));
    for error in errors {
        assert!(matches!(error, DecodeError::Newer { .. }), "{error:?}");
        assert!(!error.kind().is_empty() && error.to_string().contains("of_the_future"), "{error}");
    }
}

#[test]
fn an_invalid_value_is_malformed_even_if_it_mentions_an_unknown_variant() {
    let words = json!("unknown variant `of_the_future`");
    for (name, place, value) in [
        ("DeliverySettled.v1.json", "/data/attempt", words),
        ("DeliverySettled.v1.json", "/data/reason", json!(7)),
        ("DeliverySettled.v1.json", "/data/reason", json!({"unknown variant `of_the_future`": 7})),
    ] {
        let error = altered(name, place, value);
        assert!(matches!(error, DecodeError::Malformed(_)), "{error:?}");
    }
}

/// A receipt that arrives early is stored as a row with the answer in JSON. Releases before 0.2.0 wrote such rows too, so the
/// names in that JSON must not change.
#[test]
fn stored_names_of_blame_do_not_change() {
    let names = [Blame::Usual, Blame::Provider, Blame::User, Blame::None].map(|blame| json!(blame));
    assert_eq!(names, ["usual", "provider", "user", "nobody"].map(|name| json!(name)));
}
