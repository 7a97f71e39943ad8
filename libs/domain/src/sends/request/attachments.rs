//! `data.attachments`: reads and validates the files of a send and removes them from its data.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::Problem;
use crate::content::{Attachment, Object};
use crate::fields::Fields;

/// Maximum total size of the files of a send, in bytes.
pub const MAX_ATTACHED: usize = 10 * 1024 * 1024;
/// Maximum number of files of a send.
pub const MAX_ATTACHMENTS: usize = 50;
/// Longest name of a file, in bytes.
pub const MAX_FILE_NAME: usize = 255;
/// Longest media type, in bytes.
pub const MAX_MEDIA_TYPE: usize = 255;

const PATH: &str = "data.attachments";
const UNKNOWN_MEDIA_TYPE: &str = "application/octet-stream";
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The files of a send, which are not written to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Name, media type and size of each file.
    pub list: Vec<Attachment>,
    /// The contents of these files, in the same order.
    pub contents: Vec<Vec<u8>>,
    /// Total size of the base64 texts in the body, in bytes.
    pub encoded: usize,
}

/// Removes the files from the data of a send and returns them.
pub(super) fn take(data: &mut Object, strict: bool, problems: &mut Vec<Problem>) -> Files {
    let mut files = Files::default();
    let Some(given) = data.remove("attachments").filter(|given| !given.is_null()) else {
        return files;
    };
    let Value::Array(items) = given else {
        problems.push(Problem::new(PATH, "invalid_type", format!("{PATH} must be an array")));
        return files;
    };
    if items.len() > MAX_ATTACHMENTS {
        let message = format!("{PATH} has {} files; at most {MAX_ATTACHMENTS} are allowed", items.len());
        problems.push(Problem::new(PATH, "too_many", message));
        return files;
    }
    for (number, item) in (0..).zip(items) {
        let Some(fields) = Fields::open(&format!("{PATH}[{number}]"), item, problems) else { continue };
        read(number, fields, strict, &mut files, problems);
    }
    let total: usize = files.contents.iter().map(Vec::len).sum();
    if total > MAX_ATTACHED {
        let message = format!("{PATH} has {total} bytes in total; at most {MAX_ATTACHED} are allowed");
        problems.push(Problem::new(PATH, "too_large", message));
    }
    files
}

fn read(number: u32, mut fields: Fields, strict: bool, files: &mut Files, problems: &mut Vec<Problem>) {
    fields.require("name", problems);
    let name = fields.line("name", MAX_FILE_NAME, problems);
    let content_type = fields.line("contentType", MAX_MEDIA_TYPE, problems);
    let content_type = content_type.unwrap_or_else(|| UNKNOWN_MEDIA_TYPE.to_owned());
    if !is_media_type(&content_type) {
        let path = fields.path("contentType");
        let message = format!("{path} must be the media type of a file, such as application/pdf");
        problems.push(Problem::new(path, "invalid_media_type", message));
    }
    fields.require("content", problems);
    let path = fields.path("content");
    let content = match fields.take("content") {
        None => None,
        Some(Value::String(text)) => {
            files.encoded += text.len();
            decoded(&path, &text, problems)
        }
        Some(_) => {
            problems.push(Problem::new(&path, "invalid_type", format!("{path} must be a string")));
            None
        }
    };
    fields.finish(strict, problems);
    if let (Some(name), Some(content)) = (name, content) {
        files.list.push(Attachment { number, name, content_type, size: content.len() as u64 });
        files.contents.push(content);
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
