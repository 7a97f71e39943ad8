//! Checks that every message ever written stays readable. There is at least one golden file per type and version, and golden
//! files are never removed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use domain::event::{DecodeError, bundle};
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
        let parts = bundle::decode(&text.clone().into())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let messages: Vec<Bytes> = parts.iter().map(|part| part.envelope.encode().unwrap().into()).collect();
        let kind = parts[0].envelope.event.kind();
        let written: Value = serde_json::from_slice(&bundle::encode(kind, &messages)).unwrap();
        let golden: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written, golden, "{}", path.display());
        // If a member was added to a version later, a separate golden file covers it, with the member's name in the file name.
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let version = match golden["v"].as_u64() {
            Some(2) => ".v2.bundle.".to_owned(),
            version => format!(".v{}.", version.unwrap()),
        };
        assert!(
            name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(&version)),
            "{name} holds a {kind}"
        );
    }
}

#[test]
fn the_parts_of_a_bundle_are_messages_of_their_own() {
    let message = fs::read(golden_file("DeliverySettled.v2.bundle.json")).unwrap();
    let parts = bundle::decode(&message.into()).unwrap();
    assert_eq!(parts.len(), 2);
    for part in parts {
        assert_eq!(Envelope::decode(&part.message).unwrap(), part.envelope);
    }
}

#[test]
fn a_bundle_is_read_completely_or_not_at_all() {
    let decode = |name: &str, place: &str, value: Value| {
        let message = with_value(name, place, value);
        bundle::decode(&message.to_string().into()).unwrap_err()
    };
    let bundle = "DeliverySettled.v2.bundle.json";
    for (place, value) in [
        ("/data/1/type", json!("OfTheFuture")),
        ("/data/1/data/channel", json!("of_the_future")),
        ("/data/1/v", json!(3)),
        ("/v", json!(3)),
    ] {
        let error = decode(bundle, place, value);
        assert!(matches!(error, DecodeError::Newer { .. }), "{place}: {error:?}");
    }
    for value in [json!([]), json!({}), json!([{}])] {
        let error = decode(bundle, "/data", value);
        assert!(matches!(error, DecodeError::Malformed(_)), "{error:?}");
    }
    let nested: Value = fs::read_to_string(golden_file(bundle)).unwrap().parse().unwrap();
    let error = decode(bundle, "/data/1", nested);
    assert!(matches!(error, DecodeError::Newer { .. }), "{error:?}");
}

/// A release that cannot read bundles leaves them to a newer process.
#[test]
fn a_reader_of_single_events_takes_a_bundle_for_a_newer_message() {
    let bundles = golden_files();
    let bundles: Vec<_> =
        bundles.iter().filter(|path| path.to_string_lossy().ends_with(".v2.bundle.json")).collect();
    assert_eq!(bundles.len(), 4);
    for path in bundles {
        let error = Envelope::decode(&fs::read(path).unwrap()).unwrap_err();
        assert!(matches!(error, DecodeError::Newer { .. }), "{}: {error:?}", path.display());
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

fn golden_file(name: &str) -> PathBuf {
    golden_files().into_iter().find(|path| path.ends_with(name)).unwrap()
}

/// Returns a golden message, with the value at the JSON Pointer `place` replaced.
fn with_value(name: &str, place: &str, value: Value) -> Value {
    let mut message: Value = serde_json::from_str(&fs::read_to_string(golden_file(name)).unwrap()).unwrap();
    *message.pointer_mut(place).unwrap() = value;
    message
}

/// Decodes a golden message in which the value at the JSON Pointer `place` is replaced, and returns the error.
fn altered(name: &str, place: &str, value: Value) -> DecodeError {
    Envelope::decode(with_value(name, place, value).to_string().as_bytes()).unwrap_err()
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
