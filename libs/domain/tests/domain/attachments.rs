//! Tests of how `data.attachments` is read and validated.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use domain::request::{MAX_ATTACHED, MAX_ATTACHMENTS, SendRules};
use serde_json::{Value, json};

use crate::request::{body, parsed, problems, rules};

fn with(attachments: Value) -> Value {
    let mut with = body(json!({"data": {"order": 7}}));
    with["data"]["attachments"] = attachments;
    with
}

fn file(content: &str) -> Value {
    json!({"name": "a.txt", "content": content})
}

#[test]
fn files_are_removed_from_the_data() {
    let bytes: Vec<u8> = (0..=255).collect();
    let in_lines = STANDARD
        .encode(&bytes)
        .as_bytes()
        .chunks(76)
        .map(String::from_utf8_lossy)
        .collect::<Vec<_>>()
        .join("\r\n");
    let attachments = json!([
        {"name": "Rechnung ä.pdf", "contentType": "application/pdf; x=y", "content": in_lines},
        {"name": "b.bin", "content": STANDARD_NO_PAD.encode(b"four")},
        {"name": "empty", "contentType": "text/plain", "content": ""},
    ]);
    let parsed = parsed(with(attachments));
    assert_eq!(json!(parsed.send.content.data), json!({"order": 7}));
    assert_eq!(parsed.files.contents, [&bytes[..], b"four", b""]);
    assert_eq!(parsed.send.attachments, parsed.files.list);
    assert_eq!(
        json!(parsed.files.list),
        json!([
            {"number": 0, "name": "Rechnung ä.pdf", "contentType": "application/pdf; x=y", "size": 256},
            {"number": 1, "name": "b.bin", "contentType": "application/octet-stream", "size": 4},
            {"number": 2, "name": "empty", "contentType": "text/plain", "size": 0},
        ])
    );
    assert_eq!(parsed.files.encoded, in_lines.len() + 6);

    let of_notification = json!({"notification": {"title": "x", "data": {"attachments": [file("")]}}});
    assert_eq!(crate::request::parsed(body(of_notification)).files.list.len(), 1);
    assert!(crate::request::parsed(with(json!([]))).send.attachments.is_empty());
    assert!(crate::request::parsed(with(Value::Null)).send.content.data.get("attachments").is_none());
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table of cases")]
fn each_problem_of_a_file_names_its_field() {
    let one = |members: Value| json!([members]);
    let many: Vec<_> = (0..=MAX_ATTACHMENTS).map(|_| file("")).collect();
    let of_type = |media: &str| one(json!({"name": "a", "contentType": media, "content": ""}));
    let first = "data.attachments[0]";
    let cases = [
        (json!({"name": "a"}), "data.attachments".to_owned(), "invalid_type"),
        (json!(many), "data.attachments".to_owned(), "too_many"),
        (json!(["x"]), first.to_owned(), "invalid_type"),
        (one(json!({"content": ""})), format!("{first}.name"), "required"),
        (one(json!({"name": "a"})), format!("{first}.content"), "required"),
        (one(json!({"name": "a\r\nb", "content": ""})), format!("{first}.name"), "invalid_character"),
        (one(json!({"name": "", "content": ""})), format!("{first}.name"), "empty"),
        (one(json!({"name": "a", "content": 1})), format!("{first}.content"), "invalid_type"),
        (one(file("data:text/plain;base64,YQ==")), format!("{first}.content"), "invalid_base64"),
        (one(file("YQ===")), format!("{first}.content"), "invalid_base64"),
        (of_type("pdf"), format!("{first}.contentType"), "invalid_media_type"),
        (of_type("text/plain\r\nBcc: x"), format!("{first}.contentType"), "invalid_character"),
        (of_type("multipart/mixed"), format!("{first}.contentType"), "invalid_media_type"),
        (of_type("Message/rfc822"), format!("{first}.contentType"), "invalid_media_type"),
    ];
    let with_id = |id: Value| json!({"name": "a", "content": "", "contentId": id});
    let calendar = |method: &str, text: &str| {
        let media_type = format!("text/calendar; charset=utf-8; method={method}");
        one(json!({"name": "a.ics", "contentType": media_type, "content": STANDARD.encode(text)}))
    };
    let of_files = [
        (json!([with_id(json!("a b"))]), format!("{first}.contentId"), "invalid_character"),
        (json!([with_id(json!("<a>b>"))]), format!("{first}.contentId"), "invalid_character"),
        (json!([with_id(json!("a\r\nBcc: b"))]), format!("{first}.contentId"), "invalid_character"),
        (json!([with_id(json!(7))]), format!("{first}.contentId"), "invalid_type"),
        (json!([with_id(json!("x".repeat(260)))]), format!("{first}.contentId"), "too_long"),
        (
            json!([with_id(json!("a")), with_id(json!("<a>"))]),
            "data.attachments[1].contentId".to_owned(),
            "repeated",
        ),
        (
            one(json!({"name": "a", "content": "", "disposition": "inline"})),
            format!("{first}.contentId"),
            "required",
        ),
        (
            one(json!({"name": "a", "content": "", "disposition": "hidden"})),
            format!("{first}.disposition"),
            "unknown_value",
        ),
        (
            calendar("REQUEST", "BEGIN:VCALENDAR\r\nMETHOD:CANCEL\r\n"),
            format!("{first}.contentType"),
            "invalid_calendar",
        ),
        (calendar("INVITE", "METHOD:INVITE"), format!("{first}.contentType"), "invalid_media_type"),
    ];
    for (attachments, field, code) in cases.into_iter().chain(of_files) {
        assert_eq!(problems(with(attachments.clone()), rules()), [(field, code)], "{attachments}");
    }
    let own = json!({"sendTo": {"recipients": [{"identifier": "ada", "data": {"attachments": []}}]}});
    let expected = ("sendTo.recipients[0].data.attachments".to_owned(), "not_allowed");
    assert_eq!(problems(body(own), rules()), [expected]);
    let strict = SendRules { strict: true, ..rules() };
    let unknown = one(json!({"name": "a", "content": "", "type": "x"}));
    assert_eq!(problems(with(unknown), strict), [(format!("{first}.type"), "unknown_member")]);
}

#[test]
fn the_total_size_of_files_is_limited() {
    let half = STANDARD.encode(vec![0; MAX_ATTACHED / 2]);
    let parsed = parsed(with(json!([file(&half), file(&half)])));
    assert_eq!(parsed.files.list[1].size, 5 * 1024 * 1024);
    let over = problems(with(json!([file(&half), file(&half), file("YQ==")])), rules());
    assert_eq!(over, [("data.attachments".to_owned(), "too_large")]);
}

#[test]
fn files_are_shown_in_the_email_or_attached_to_it() {
    let attachments = json!([
        {"name": "a.png", "contentType": "image/png", "content": "", "contentId": "<logo@example.com>"},
        {"name": "b.png", "content": "", "contentId": "cid:b", "disposition": "attachment"},
        {"name": "c.png", "content": "", "contentId": "c", "disposition": "inline", "cid": "d", "encoding": "base64"},
        {"name": "d.ics", "contentType": "text/calendar; method=request", "content": STANDARD.encode("A:B\nmethod: REQUEST\r\n")},
    ]);
    let files = parsed(with(attachments)).files;
    let ids: Vec<_> =
        files.list.iter().map(|file| (file.content_id.as_deref(), file.inline, file.method())).collect();
    let expected = [
        (Some("logo@example.com"), true, None),
        (Some("b"), false, None),
        (Some("c"), true, None),
        (None, false, Some("REQUEST")),
    ];
    assert_eq!(ids, expected);
    assert_eq!(files.ignored, ["data.attachments[2].cid", "data.attachments[2].encoding"]);
    // An older release reads the list: it ignores the new members, and reads files without them.
    let stored = json!({"number": 0, "name": "a", "contentType": "a/b", "size": 1});
    let file: domain::content::Attachment = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(json!(file), stored);
}

#[test]
fn html_that_refers_to_a_missing_file_is_refused_under_strict_handling() {
    let mut body = with(json!([{"name": "a", "content": "", "contentId": "logo"}]));
    body["override"] = json!({"channel": {"email": {"html": "<img src=\"cid:logo\"><img src='cid:other'>"}}});
    parsed(body.clone());
    let strict = SendRules { strict: true, ..rules() };
    let expected = ("override.channel.email.html".to_owned(), "unknown_content_id");
    assert_eq!(problems(body, strict), [expected]);
}
