use std::sync::Arc;

use domain::content::{Attachment, Object};
use domain::provider_override;
use lettre::Address;
use serde_json::{Map, Value, json};
use worker::ProviderKind as _;

use super::send::Postmark;
use super::settings::PostmarkSettings;
use crate::letter::Letter;
use crate::letter_error::LetterError;
use crate::parts::Piece;

/// Returns the JSON of a request.
pub(super) fn of(
    settings: &PostmarkSettings,
    letter: &Letter<'_>,
    overrides: Option<&Object>,
) -> Result<Vec<Piece>, LetterError> {
    let mut json = Value::Object(members(settings, letter, overrides)?).to_string();
    if letter.attachments.is_empty() {
        return Ok(vec![Piece::Text(json)]);
    }
    // The attachments become the last member.
    json.pop();
    json.push_str(",\"Attachments\":[");
    let mut pieces = Vec::with_capacity(letter.attachments.len() * 2 + 1);
    for (number, (file, content)) in letter.attachments.iter().enumerate() {
        if number > 0 {
            json.push(',');
        }
        json.push_str(&attachment(file).to_string());
        // The content becomes the last member of the attachment.
        json.pop();
        json.push_str(",\"Content\":\"");
        pieces.push(Piece::Text(std::mem::take(&mut json)));
        pieces.push(Piece::File(Arc::clone(content)));
        json.push_str("\"}");
    }
    json.push_str("]}");
    pieces.push(Piece::Text(json));
    Ok(pieces)
}

fn members(
    settings: &PostmarkSettings,
    letter: &Letter<'_>,
    overrides: Option<&Object>,
) -> Result<Map<String, Value>, LetterError> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    set("From", letter.identity.from.to_string().into());
    set("To", letter.to.to_string().into());
    for (name, addresses) in [("Cc", &letter.cc), ("Bcc", &letter.bcc)] {
        if !addresses.is_empty() {
            set(name, list(addresses).into());
        }
    }
    if let Some(reply_to) = &letter.identity.reply_to {
        set("ReplyTo", reply_to.to_string().into());
    }
    set("Subject", letter.subject.into());
    set("TextBody", (*letter.text).into());
    if let Some(html) = &letter.html {
        set("HtmlBody", (**html).into());
    }
    set("Headers", headers(letter));
    if let Some(stream) = &settings.stream {
        set("MessageStream", stream.as_str().into());
    }
    merge(&mut body, overrides)?;
    let metadata = body.entry("Metadata").or_insert_with(|| json!({}));
    metadata
        .as_object_mut()
        .ok_or(LetterError::Member)?
        .insert("deliveryId".to_owned(), letter.delivery().into());
    Ok(body)
}

fn list(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Sets `X-PM-KeepID`, without which the API replaces the Message-ID.
fn headers(letter: &Letter<'_>) -> Value {
    let own = [("Message-ID", letter.message_id.as_str()), ("X-PM-KeepID", "true")];
    let unsubscribe_headers = letter.unsubscribe_headers();
    let all = own.into_iter().chain(unsubscribe_headers.iter().map(|(name, value)| (*name, value.as_str())));
    all.chain(letter.automatic_headers())
        .chain(letter.headers.iter().copied())
        .map(|(name, value)| json!({"Name": name, "Value": value}))
        .collect()
}

/// Returns an attachment without its content.
fn attachment(file: &Attachment) -> Value {
    let mut attachment = json!({"Name": file.name, "ContentType": file.content_type});
    // Postmark sends a file with this member inline, even if the HTML does not refer to it.
    if let (Some(id), Some(members)) = (&file.content_id, attachment.as_object_mut()) {
        members.insert("ContentID".to_owned(), format!("cid:{id}").into());
    }
    attachment
}

fn merge(body: &mut Map<String, Value>, overrides: Option<&Object>) -> Result<(), LetterError> {
    for (name, value) in overrides.into_iter().flatten().filter(|(name, _)| *name != "_config") {
        if provider_override::refusal(Postmark::NAME, name, value).is_some() {
            return Err(LetterError::Member);
        }
        body.insert(name.clone(), value.clone());
    }
    Ok(())
}
