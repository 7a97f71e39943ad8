//! Reads and validates the body of a send request and turns it into a [`SendRequest`].

mod attachments;
mod audience;
mod notification;
mod overrides;

use std::time::Duration;

use serde_json::Value;

use self::attachments::SendData;
use self::audience::{Audience, RecipientBody, SendTo};
use self::notification::{Notification, NotificationContent};
use self::overrides::OverrideBody;
use crate::body::Body;
use crate::body::kind::{
    As, Deprecated, Flag, FreeObject, Identifier, List, Nested, Text, Time, bytes, with_pattern,
};
use crate::body::words::{OneOf, Words};
use crate::content::{InAppContent, Object};
use crate::fields::{MAX_IDENTIFIER, check_plain_json};
use crate::overrides::Overrides;
use crate::send::{Lane, SendRequest, TRANSACTIONAL_RECIPIENTS, TemplateRef};
use crate::size::json_size;
use crate::{Problem, Timestamp, content_ids};

pub use attachments::{Files, MAX_ATTACHED, MAX_ATTACHMENTS, MAX_FILE_NAME, MAX_MEDIA_TYPE};
pub use audience::{MAX_EXCLUDED, MAX_RECIPIENTS, MAX_TOPICS};
pub use overrides::{
    MAX_COPIES, MAX_EMAIL_PART, MAX_HEADER_VALUE, MAX_HEADERS, MAX_PROVIDER_OVERRIDES, MAX_SENDER,
};

/// Longest title, in bytes.
pub const MAX_TITLE: usize = 1024;
/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// Longest icon or link reference, in bytes.
pub const MAX_REFERENCE: usize = 2048;
/// Largest `data`, as JSON text, in bytes.
pub const MAX_DATA: usize = 256 * 1024;
/// Maximum, in bytes, of a send's content size multiplied by its number of recipients.
pub const MAX_FAN_OUT: usize = 64 * 1024 * 1024;
/// Longest time ahead for which a send may be scheduled.
pub const MAX_AHEAD: Duration = Duration::from_secs(90 * 86_400);

crate::body! {
    /// Content and recipients of a send. At least one recipient or topic is required.
    pub struct SendBody as "SendRequest" {
        required notification: Nested<NotificationContent>,
        optional send_to as "sendTo": Nested<SendTo>,
        /// Deprecated in favour of `sendTo.recipients`. The service merges both lists and removes duplicates.
        optional recipients: Deprecated<List<RecipientBody, MAX_RECIPIENTS>>,
        /// Identifier of a category. The service creates the category if it is missing. Overrides `notification.category`.
        optional category: Identifier,
        optional data: As<Nested<SendData>, FreeObject>,
        optional overrides as "override": Nested<OverrideBody>,
        /// True if the send may use only proven targets: addresses, push tokens and subscriptions that a caller with a user token, a
        /// signature or the API secret stored. If a user has only other targets on a channel, the channel is skipped with the reason
        /// `unproven_target`. Set it for one-time codes. Default: false.
        optional proven_targets as "provenTargets": Flag,
        /// Earliest time of delivery, at most 90 days ahead. A time in the past means now.
        optional send_at as "sendAt": Time,
        /// Latest time of sending. A delivery by email, push or SMS that is not sent by then ends as `expired`.
        optional expires_at as "expiresAt": Time,
        /// Lane of the send. A send to more than 100 recipients always uses `bulk`, and so do the further subscribers of a large topic.
        optional lane: As<Lane, OneOf<Lane>>,
        /// Treatment of unknown recipients: `skip` them, or `reject` the whole send. An unknown recipient is an identifier without a user
        /// and without an inline profile. Default: `reject` with strict handling, otherwise `skip`.
        optional on_unknown_recipient as "onUnknownRecipient": OneOf<OnUnknownRecipient>,
        /// A key by which `DELETE /v3/requests?cancellationKey=` cancels the send, together with all others that have it.
        optional cancellation_key as "cancellationKey": Identifier,
        /// Same as the header `Idempotency-Key`.
        optional idempotency_key as "idempotencyKey": As<VisibleText, Text<MAX_IDENTIFIER>>,
    }
    example {
        "notification": {"title": "Your order is on its way", "message": "It arrives on Friday.", "category": "orders"},
        "sendTo": {"recipients": ["ada", {"identifier": "bob", "email": "bob@example.com"}]},
        "data": {"orderId": 1007},
    }
}

#[derive(Clone, Copy, Debug)]
enum OnUnknownRecipient {
    Skip,
    Reject,
}

impl Words for OnUnknownRecipient {
    const WORDS: &'static [(&'static str, Self)] =
        &[("skip", OnUnknownRecipient::Skip), ("reject", OnUnknownRecipient::Reject)];
}

crate::schemas! {
    /// Visible ASCII characters.
    VisibleText = |_| with_pattern(bytes(1, MAX_IDENTIFIER), "^[!-~]*$");
}

/// Current time and strictness for the validation of a send request.
#[derive(Clone, Copy, Debug)]
pub struct SendRules {
    pub now: Timestamp,
    /// True if unknown members, recipients and channels are problems (`Prefer: handling=strict`).
    pub strict: bool,
}

/// A valid send request, except that its times may be invalid (see `untimely`).
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedSend {
    pub send: SendRequest,
    /// The files of `data.attachments`, with their contents.
    pub files: Files,
    /// `idempotencyKey` of the body.
    pub idempotency_key: Option<String>,
    /// True if the request uses the deprecated top-level member `recipients`.
    pub deprecated: bool,
    /// True if the whole send must be refused if any recipient is unknown.
    pub reject_unknown: bool,
    /// Problems of `sendAt` and `expiresAt` relative to the current time. The caller refuses the send for these problems, unless
    /// the request repeats an accepted send, whose times were valid when it was accepted.
    pub untimely: Vec<Problem>,
}

/// An invalid send request.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidRequest {
    /// Every problem of the body, including problems of its times.
    pub problems: Vec<Problem>,
    /// The template that the request names, if any, so that the caller can report problems of the template too.
    pub template: Option<TemplateRef>,
}

/// Reads the body of `POST /notifications`.
///
/// # Errors
/// Returns every problem if the request is invalid.
pub fn parse_send(body: Value, rules: SendRules) -> Result<ParsedSend, InvalidRequest> {
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let parsed = SendBody::open("", body, &mut problems).map(|body| read_body(body, rules, &mut problems));
    match parsed {
        Some(parsed) if problems.is_empty() => Ok(parsed),
        Some(parsed) => {
            problems.extend(parsed.untimely);
            Err(InvalidRequest { problems, template: parsed.send.template })
        }
        None => Err(InvalidRequest { problems, template: None }),
    }
}

fn read_body(mut body: SendBody, rules: SendRules, problems: &mut Vec<Problem>) -> ParsedSend {
    let notification = body.notification(problems).map(|fields| fields.read(rules.strict, problems));
    let Notification { mut content, template, category, cancellation_key } = notification.unwrap_or_default();
    let Audience { recipients, topics, exclude, deprecated } =
        Audience::read(&mut body, rules.strict, problems);
    let category = body.category(problems).or(category);
    let files = read_data(&mut body, &mut content.data, rules.strict, problems);
    let overrides = body.overrides(problems).map(|overrides| overrides.read(rules.strict, problems));
    let (channels, overrides) = overrides.unwrap_or_default();
    if rules.strict {
        check_content_ids(&overrides, &files, problems);
    }
    let proven_targets = body.proven_targets(problems).unwrap_or(false);
    let send_at = body.send_at(problems).filter(|&at| at > rules.now);
    let expires_at = body.expires_at(problems);
    let untimely = check_times(send_at, expires_at, rules.now);
    let cancellation_key = one_key(body.cancellation_key(problems), cancellation_key, problems);
    let lane = body.lane(problems);
    let unknown = body.on_unknown_recipient(problems);
    let idempotency_key = read_key(&mut body, problems);
    body.fields.finish(rules.strict, problems);
    let attachments = files.list.clone();
    let additional = json_size(&overrides) + json_size(&attachments);
    // A topic may have any number of subscribers. Its sends may be as large as sends to the maximum number of named recipients.
    let counted = if topics.is_empty() { recipients.len() } else { MAX_RECIPIENTS };
    check_fan_out(&content, additional, counted, problems);
    let lane = match lane {
        Some(Lane::Transactional) | None if recipients.len() > TRANSACTIONAL_RECIPIENTS => Lane::Bulk,
        lane => lane.unwrap_or(Lane::Transactional),
    };
    let send = SendRequest {
        content,
        template,
        category,
        recipients,
        topics,
        exclude,
        channels,
        proven_targets,
        overrides,
        attachments,
        send_at,
        expires_at,
        lane,
        cancellation_key,
        idempotency: None,
    };
    let reject_unknown =
        unknown.map_or(rules.strict, |unknown| matches!(unknown, OnUnknownRecipient::Reject));
    ParsedSend { send, files, idempotency_key, deprecated, reject_unknown, untimely }
}

/// Reports ids of files that the HTML of the send refers to and that no file has.
fn check_content_ids(overrides: &Overrides, files: &Files, problems: &mut Vec<Problem>) {
    let html = overrides.email().and_then(|email| email.html.as_deref()).unwrap_or_default();
    for id in content_ids::missing(html, &files.list) {
        let path = "override.channel.email.html";
        let message =
            format!("{path} refers to cid:{id}, but no file in data.attachments has this contentId");
        problems.push(Problem::new(path, "unknown_content_id", message));
    }
}

fn read_data(body: &mut SendBody, data: &mut Object, strict: bool, problems: &mut Vec<Problem>) -> Files {
    data.extend(body.data(problems).unwrap_or_default());
    let files = attachments::take(data, strict, problems);
    let size = json_size(data);
    if size > MAX_DATA {
        problems.push(Problem::new(
            "data",
            "too_long",
            format!("data has {size} bytes; at most {MAX_DATA} are allowed"),
        ));
    }
    files
}

fn check_times(send_at: Option<Timestamp>, expires_at: Option<Timestamp>, now: Timestamp) -> Vec<Problem> {
    let mut untimely = Vec::new();
    if send_at.is_some_and(|at| at > now + MAX_AHEAD) {
        untimely.push(Problem::new("sendAt", "too_far", "sendAt must be at most 90 days ahead"));
    }
    if expires_at.is_some_and(|at| at <= send_at.unwrap_or(now)) {
        let message = "expiresAt must be later than now and than sendAt";
        untimely.push(Problem::new("expiresAt", "past", message));
    }
    untimely
}

/// Returns the cancellation key of the body or of its workflow, where published clients give it.
fn one_key(own: Option<String>, of_workflow: Option<String>, problems: &mut Vec<Problem>) -> Option<String> {
    if let (Some(own), Some(of_workflow)) = (&own, &of_workflow)
        && own != of_workflow
    {
        let message = "cancellationKey and notification.workflow.cancellationKey differ; give one of them";
        problems.push(Problem::new("cancellationKey", "ambiguous", message));
    }
    own.or(of_workflow)
}

fn read_key(body: &mut SendBody, problems: &mut Vec<Problem>) -> Option<String> {
    let key = body.idempotency_key(problems)?;
    if !is_idempotency_key(&key) {
        let message = "idempotencyKey must have 1 to 255 visible ASCII characters";
        problems.push(Problem::new("idempotencyKey", "invalid_character", message));
        return None;
    }
    Some(key)
}

/// Returns true if `key` is a valid Idempotency-Key: 1 to 255 visible ASCII characters.
#[must_use]
pub fn is_idempotency_key(key: &str) -> bool {
    (1..=MAX_IDENTIFIER).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reports a problem if the content is too large for this number of recipients ([`MAX_FAN_OUT`]). `additional` is the size of the
/// overrides and the list of attachments, which every recipient gets too.
fn check_fan_out(content: &InAppContent, additional: usize, recipients: usize, problems: &mut Vec<Problem>) {
    let texts = [&content.title, &content.message, &content.icon, &content.url];
    let text: usize = texts.iter().filter_map(|text| text.as_ref().map(String::len)).sum();
    let size = text + json_size(&content.data) + json_size(&content.blocks) + additional;
    if size.saturating_mul(recipients) > MAX_FAN_OUT {
        let message = format!(
            "{recipients} recipients × {size} bytes of content exceed {MAX_FAN_OUT} bytes; split the send"
        );
        problems.push(Problem::new("sendTo.recipients", "too_large", message));
    }
}
