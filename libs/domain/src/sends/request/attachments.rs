//! `data.attachments`: reads and validates the files of a send and removes them from its data.

use std::borrow::Cow;
use std::mem;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::Problem;
use crate::body::Body;
use crate::body::kind::{Any, AnyText, Line, List};
use crate::body::rest::AnyMembers;
use crate::body::words::{OneOf, Words};
use crate::content::{Attachment, MAX_CONTENT_ID, Object, calendar_method};

/// Maximum total size of the files of a send, in bytes.
pub const MAX_ATTACHED: usize = 10 * 1024 * 1024;
/// Maximum number of files of a send.
pub const MAX_ATTACHMENTS: usize = 50;
/// Longest name of a file, in bytes.
pub const MAX_FILE_NAME: usize = 255;
/// Longest media type, in bytes.
pub const MAX_MEDIA_TYPE: usize = 255;

/// Longest `contentId`, in bytes: an id in angle brackets, or with `cid:`.
const MAX_WRITTEN_ID: usize = MAX_CONTENT_ID + 4;

const PATH: &str = "data.attachments";
const UNKNOWN_MEDIA_TYPE: &str = "application/octet-stream";
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

crate::body! {
    /// Data of the notification, and variables of its template: at most 256 KiB without the attachments. A key here overrides the
    /// same key of `notification.data`. A key of a recipient's own `data` overrides both.
    pub(super) struct SendData {
        /// Files for the email channel, at most 10 MiB in total. The inbox and the other channels do not show them.
        optional attachments: List<FileToSend, MAX_ATTACHMENTS>,
        ..AnyMembers
    }
}

crate::body! {
    /// A file to attach.
    struct FileToSend {
        required name: Line<MAX_FILE_NAME>,
        /// Media type of the file. Default: `application/octet-stream`. A file with the type `text/calendar; method=REQUEST`, or another
        /// method of RFC 5546, is an invitation: mail programs show it as an event. Its calendar must contain the same `METHOD`.
        optional content_type as "contentType": Line<MAX_MEDIA_TYPE>,
        /// Bytes of the file in base64.
        required content: AnyText,
        /// Id by which the HTML of the email refers to the file: `<img src="cid:logo">`. Each file needs its own.
        optional content_id as "contentId": Line<MAX_WRITTEN_ID>,
        /// `inline` shows the file inside the email and requires a `contentId`. Default: `inline` for a file with a `contentId`,
        /// otherwise `attachment`.
        optional disposition: Any<OneOf<Disposition>>,
    }
    example {"name": "invoice.pdf", "contentType": "application/pdf", "content": "JVBERi0xLjcK"}
}

#[derive(Clone, Copy, Debug)]
enum Disposition {
    Inline,
    Attachment,
}

impl Words for Disposition {
    const WORDS: &'static [(&'static str, Self)] =
        &[("inline", Disposition::Inline), ("attachment", Disposition::Attachment)];
}

/// The files of a send, which are not written to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Name, media type and size of each file.
    pub list: Vec<Attachment>,
    /// The contents of these files, in the same order.
    pub contents: Vec<Vec<u8>>,
    /// Paths of members of the files that Tidings does not know and ignores.
    pub ignored: Vec<String>,
    /// Total size of the base64 texts in the body, in bytes.
    pub encoded: usize,
}

/// Removes the files from the data of a send and returns them.
pub(super) fn take(data: &mut Object, strict: bool, problems: &mut Vec<Problem>) -> Files {
    let mut files = Files::default();
    let Some(mut body) = SendData::open("data", Value::Object(mem::take(data)), problems) else {
        return files;
    };
    let items = body.attachments(problems);
    *data = body.fields.rest();
    let Some(items) = items else { return files };
    if items.len() > MAX_ATTACHMENTS {
        let message = format!("{PATH} has {} files; at most {MAX_ATTACHMENTS} are allowed", items.len());
        problems.push(Problem::new(PATH, "too_many", message));
        return files;
    }
    for (number, item) in (0..).zip(items) {
        let Some(file) = FileToSend::open(&format!("{PATH}[{number}]"), item, problems) else { continue };
        read(number, file, strict, &mut files, problems);
    }
    let total: usize = files.contents.iter().map(Vec::len).sum();
    if total > MAX_ATTACHED {
        let message = format!("{PATH} has {total} bytes in total; at most {MAX_ATTACHED} are allowed");
        problems.push(Problem::new(PATH, "too_large", message));
    }
    files
}

fn read(number: u32, mut given: FileToSend, strict: bool, files: &mut Files, problems: &mut Vec<Problem>) {
    let name = given.name(problems);
    let content_type = given.content_type(problems);
    let content_type = content_type.unwrap_or_else(|| UNKNOWN_MEDIA_TYPE.to_owned());
    let type_path = given.fields.path("contentType");
    if !is_media_type(&content_type) {
        let message = format!("{type_path} must be the media type of a file, such as application/pdf");
        problems.push(Problem::new(&type_path, "invalid_media_type", message));
    }
    let content = given.content(problems).and_then(|text| {
        files.encoded += text.len();
        decoded(&given.fields.path("content"), &text, problems)
    });
    let content_id = read_content_id(&mut given, &files.list, problems);
    let inline = read_disposition(&mut given, content_id.is_some(), problems);
    files.ignored.extend(given.fields.keys().iter().map(|key| given.fields.path(key)));
    given.fields.finish(strict, problems);
    if let (Some(name), Some(content)) = (name, content) {
        let file = Attachment { number, name, content_type, size: content.len() as u64, content_id, inline };
        check_invitation(&type_path, &file, &content, problems);
        files.list.push(file);
        files.contents.push(content);
    }
}

/// Reads `contentId`: with or without angle brackets, or as the URL that the HTML contains.
fn read_content_id(
    given: &mut FileToSend,
    before: &[Attachment],
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let text = given.content_id(problems)?;
    let bare = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    let id = bare.or_else(|| text.strip_prefix("cid:")).unwrap_or(&text).to_owned();
    let path = given.fields.path("contentId");
    if !Attachment::is_content_id(&id) {
        let message = format!(
            "{path} must be an id such as logo or logo@example.com: at most {MAX_CONTENT_ID} letters, digits and . @ _ - +"
        );
        problems.push(Problem::new(path, "invalid_character", message));
        return None;
    }
    if before.iter().any(|file| file.content_id.as_ref() == Some(&id)) {
        let message = format!("{path} is the id of two files; each needs its own");
        problems.push(Problem::new(path, "repeated", message));
        return None;
    }
    Some(id)
}

/// Reads `disposition`. Returns true if the file is shown inside the email, which is the default for a file with an id.
fn read_disposition(given: &mut FileToSend, has_id: bool, problems: &mut Vec<Problem>) -> bool {
    let path = given.fields.path("disposition");
    match given.disposition(problems) {
        None => has_id,
        Some(Value::String(text)) if text == "attachment" => false,
        Some(Value::String(text)) if text == "inline" => {
            let path = given.fields.path("contentId");
            if !has_id && !problems.iter().any(|problem| problem.field == path) {
                let message = format!(
                    "{path} is required for an inline file; the HTML refers to the file by it (cid:…)"
                );
                problems.push(Problem::new(path, "required", message));
            }
            true
        }
        Some(_) => {
            let message = format!("{path} must be inline or attachment");
            problems.push(Problem::new(path, "unknown_value", message));
            false
        }
    }
}

/// Checks a calendar file with a method. Mail programs show it as an invitation only if the calendar has the same method (RFC 6047,
/// section 2.4).
fn check_invitation(path: &str, file: &Attachment, content: &[u8], problems: &mut Vec<Problem>) {
    let Some(given) = calendar_method(&file.content_type) else { return };
    let Some(method) = file.method() else {
        let message =
            format!("{path} has the method {given}, which calendars do not have; use REQUEST or CANCEL");
        problems.push(Problem::new(path, "invalid_media_type", message));
        return;
    };
    let is_same = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("METHOD") && value.trim().eq_ignore_ascii_case(method)
        })
    };
    if !content.split(|byte| *byte == b'\n').any(is_same) {
        let message =
            format!("{path} has the method {method}, so the calendar needs the line METHOD:{method}");
        problems.push(Problem::new(path, "invalid_calendar", message));
    }
}

/// Decodes base64. White space is ignored, because many encoders break lines (RFC 2045, section 6.8).
fn decoded(path: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Vec<u8>> {
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    let bytes = if text.bytes().any(is_space) {
        Cow::Owned(text.bytes().filter(|byte| !is_space(*byte)).collect::<Vec<_>>())
    } else {
        Cow::Borrowed(text.as_bytes())
    };
    let content = BASE64.decode(&*bytes).ok();
    if content.is_none() {
        let message = format!("{path} must be in base64 (RFC 4648, section 4)");
        problems.push(Problem::new(path, "invalid_base64", message));
    }
    content
}

/// Returns true if a text is a media type (RFC 2045, section 5.1) other than `multipart` and `message`, with or without
/// parameters.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&byte);
        !part.is_empty() && part.bytes().all(plain)
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_leaf = essence.trim().split_once('/').is_some_and(|(kind, subtype)| {
        let is_nested = ["multipart", "message"].iter().any(|nested| kind.eq_ignore_ascii_case(nested));
        is_token(kind) && is_token(subtype) && !is_nested
    });
    is_leaf && parameters.is_ascii()
}
