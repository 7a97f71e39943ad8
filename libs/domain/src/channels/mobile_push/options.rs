use serde_json::{Value, json};

use super::{apns, links};
use crate::Problem;
use crate::body::Body;
use crate::body::kind::{As, Flag, FreeObject, Icon, Link, Text, Whole, bytes, with_pattern};
use crate::body::rest::AnyMembers;
use crate::body::words::{OneOf, Words};
use crate::content::Object;
use crate::link::is_icon;
use crate::overrides::PushOverride;
use crate::request::{MAX_MESSAGE, MAX_REFERENCE, MAX_TITLE};
use crate::size::json_size;

/// Length in bytes.
const LONGEST: usize = 2_048;

crate::body! {
    /// Overrides for mobile push. The service ignores unknown members. With an Apple (`apns`) or Google (`fcm`) provider, 400 if the
    /// override without its `body` does not fit into a push of that service.
    pub(crate) struct MobilePushBody as "MobilePushOverride" {
        optional title: Text<MAX_TITLE>,
        /// Cut if the message is too large for the push service.
        optional body: Text<MAX_MESSAGE>,
        optional icon: Icon<MAX_REFERENCE>,
        optional url: Link<MAX_REFERENCE>,
        /// Data of the message. A key here overrides the same key of the send's `data`. Together with what the service adds, it must
        /// fit into 4,096 bytes.
        optional data: FreeObject,
        optional subtitle: Text<LONGEST>,
        /// Link of an image, or `data:image/…`.
        optional image: Text<LONGEST>,
        /// Name of the sound; empty for no sound.
        optional sound: Text<LONGEST>,
        optional badge: Whole,
        /// Phones group the messages of a thread.
        optional thread_id as "threadId": Text<LONGEST>,
        /// A later message replaces an earlier one with the same id. Printable ASCII characters.
        optional collapse_id as "collapseId": As<PrintableText, Text<{ apns::MAX_COLLAPSE_ID }>>,
        /// Category of the actions that the app offers.
        optional category: Text<LONGEST>,
        optional interruption_level as "interruptionLevel": Text<LONGEST>,
        optional mutable_content as "mutableContent": Flag,
        optional content_available as "contentAvailable": Flag,
        optional priority: As<OneOf<Priority>, Text<LONGEST>>,
        /// Seconds for which the push service keeps the message.
        optional ttl: As<Seconds, Whole>,
        /// Members of the message to FCM for Android.
        optional android: FreeObject,
        /// Headers and payload for APNs: `{"headers": {…}, "payload": {…}}`, or the payload alone, with its member `aps`. The header
        /// `apns-topic` must be the topic of one of the app's `apns` providers, or begin with it and a dot; otherwise 400.
        optional apns: FreeObject,
        /// Members of the message to FCM for browsers.
        optional webpush: FreeObject,
        ..AnyMembers
    }
}

impl MobilePushBody {
    /// Reads the texts and `data`. [`MobilePushOptions::parse`] reads all other members.
    pub(crate) fn read(mut self, problems: &mut Vec<Problem>) -> PushOverride {
        PushOverride {
            title: self.title(problems),
            body: self.body(problems),
            icon: self.icon(problems),
            url: self.url(problems),
            data: self.data(problems).unwrap_or_default(),
            options: self.fields.rest().into_iter().filter(|(_, value)| !value.is_null()).collect(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Priority {
    High,
    Normal,
}

impl Words for Priority {
    const WORDS: &'static [(&'static str, Self)] = &[("high", Priority::High), ("normal", Priority::Normal)];
}

crate::schemas! {
    /// Printable ASCII characters.
    PrintableText = |_| with_pattern(bytes(0, apns::MAX_COLLAPSE_ID), "^[ -~]*$");
    Seconds = |_| json!({"type": "integer", "format": "int64", "minimum": 0});
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MobilePushOptions {
    pub subtitle: Option<String>,
    pub image: Option<String>,
    /// An empty name means no sound; None means the default of the push service.
    pub sound: Option<String>,
    pub badge: Option<i64>,
    /// Phones group the messages of a thread.
    pub thread_id: Option<String>,
    /// A later message replaces an earlier one with the same id.
    pub collapse_id: Option<String>,
    pub category: Option<String>,
    pub interruption_level: Option<String>,
    pub mutable_content: bool,
    pub content_available: bool,
    pub is_urgent: bool,
    /// Seconds for which the push service keeps the message.
    pub ttl: Option<u64>,
    pub android: Object,
    /// Headers and payload for APNs, in the form of FCM, or the payload alone.
    pub apns: Object,
    pub webpush: Object,
}

impl MobilePushOptions {
    /// Ignores unknown members. `path` is the location of the options in the request.
    pub fn parse(options: Object, path: &str, problems: &mut Vec<Problem>) -> MobilePushOptions {
        let Some(mut options) = MobilePushBody::open(path, Value::Object(options), problems) else {
            return MobilePushOptions::default();
        };
        let subtitle = options.subtitle(problems);
        let image = options.image(problems);
        let sound = options.sound(problems);
        let thread_id = options.thread_id(problems);
        let collapse_id = options.collapse_id(problems);
        let category = options.category(problems);
        let interruption_level = options.interruption_level(problems);
        let priority = options.priority(problems);
        if image.as_deref().is_some_and(|image| !is_icon(image)) {
            let path = options.fields.path("image");
            let message = format!("{path} must be a link or data:image/…");
            problems.push(Problem::new(path, "invalid_link", message));
        }
        if collapse_id.as_deref().is_some_and(|id| !id.bytes().all(|byte| (b' '..=b'~').contains(&byte))) {
            let path = options.fields.path("collapseId");
            let message = format!("{path} must have printable ASCII characters only");
            problems.push(Problem::new(path, "invalid_character", message));
        }
        if priority.as_deref().is_some_and(|priority| !matches!(priority, "high" | "normal")) {
            let path = options.fields.path("priority");
            let message = format!("{path} must be high or normal");
            problems.push(Problem::new(path, "unknown_value", message));
        }
        let ttl = options.ttl(problems);
        if ttl.is_some_and(|ttl| ttl < 0) {
            let path = options.fields.path("ttl");
            let message = format!("{path} must be seconds, 0 or more");
            problems.push(Problem::new(path, "out_of_range", message));
        }
        let android = options.android(problems).unwrap_or_default();
        let apns = options.apns(problems).unwrap_or_default();
        let webpush = options.webpush(problems).unwrap_or_default();
        for (name, members) in [("android", &android), ("apns", &apns), ("webpush", &webpush)] {
            links::check(&options.fields.path(name), members, problems);
        }
        check_apns(&options.fields.path("apns"), &apns, problems);
        MobilePushOptions {
            subtitle,
            image,
            sound,
            badge: options.badge(problems),
            thread_id,
            collapse_id,
            category,
            interruption_level,
            mutable_content: options.mutable_content(problems).unwrap_or_default(),
            content_available: options.content_available(problems).unwrap_or_default(),
            is_urgent: priority.as_deref() != Some("normal"),
            ttl: ttl.and_then(|seconds| u64::try_from(seconds).ok()),
            android,
            apns,
            webpush,
        }
    }
}

fn check_apns(path: &str, apns: &Object, problems: &mut Vec<Problem>) {
    if let Some(headers) = apns::headers(apns) {
        apns::check_headers(&format!("{path}.headers"), headers, problems);
    }
    let size = apns::payload(apns).map(json_size).unwrap_or_default();
    if size > apns::MAX_PAYLOAD {
        let message =
            format!("{path} has a payload of {size} bytes; at most {} are allowed", apns::MAX_PAYLOAD);
        problems.push(Problem::new(path, "too_long", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_a_push_service_would_not_get_is_a_problem_with_its_field() {
        let cases = [
            (json!({"badge": "three"}), "o.badge", "invalid_type"),
            (json!({"priority": "urgent"}), "o.priority", "unknown_value"),
            (json!({"ttl": "soon"}), "o.ttl", "invalid_type"),
            (json!({"ttl": -1}), "o.ttl", "out_of_range"),
            (json!({"subtitle": "x".repeat(2_049)}), "o.subtitle", "too_long"),
            (json!({"image": "javascript:alert(1)"}), "o.image", "invalid_link"),
            (json!({"collapseId": "x".repeat(65)}), "o.collapseId", "too_long"),
            (json!({"collapseId": "é"}), "o.collapseId", "invalid_character"),
            (json!({"mutableContent": 1}), "o.mutableContent", "invalid_type"),
            (json!({"android": []  , "apns": "x"}), "o.apns", "invalid_type"),
            (
                json!({"android": {"notification": {"click_action": "javascript:x"}}}),
                "o.android.notification.click_action",
                "invalid_link",
            ),
            (
                json!({"webpush": {"notification": {"actions": [{"url": "data:x"}]}}}),
                "o.webpush.notification.actions[0].url",
                "invalid_link",
            ),
            (
                json!({"apns": {"headers": {"apns-priority": "7"}}}),
                "o.apns.headers.apns-priority",
                "invalid_header",
            ),
            (
                json!({"apns": {"headers": {"apns-priority": "1\r\na: b"}}}),
                "o.apns.headers.apns-priority",
                "invalid_header",
            ),
            (
                json!({"apns": {"headers": {"apns-expiration": "soon"}}}),
                "o.apns.headers.apns-expiration",
                "invalid_header",
            ),
            (
                json!({"apns": {"headers": {"apns-collapse-id": "x".repeat(65)}}}),
                "o.apns.headers.apns-collapse-id",
                "invalid_header",
            ),
            (json!({"apns": {"headers": {"apns-topic": ""}}}), "o.apns.headers.apns-topic", "invalid_header"),
            (json!({"apns": {"aps": {"x": "x".repeat(5_120)}}}), "o.apns", "too_long"),
        ];
        for (options, field, code) in cases {
            let mut problems = Vec::new();
            MobilePushOptions::parse(options.as_object().cloned().unwrap(), "o", &mut problems);
            let found: Vec<_> =
                problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
            assert_eq!(found, [(field, code)], "{options}");
        }
    }
}
