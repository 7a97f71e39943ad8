//! Messages that were once written stay readable: one golden file per type and version, kept for ever.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use domain::event::DecodeError;
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
    assert_eq!(found, wanted);
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
        assert_eq!(format!("{}.v1.json", envelope.event.kind()), name);
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
    assert!(matches!(
        decode(message("InboxItemSeen", 2, json!({"people": []}))),
        DecodeError::Newer { version: 2, .. }
    ));
    assert!(matches!(decode(message("InboxItemSeen", 1, json!({"user": "x"}))), DecodeError::Malformed(_)));
    assert!(matches!(decode("{".to_owned()), DecodeError::Malformed(_)));
}
