use serde_json::Value;

use super::{apns, links};
use crate::Problem;
use crate::content::Object;
use crate::fields::Fields;
use crate::link::is_icon;
use crate::size::json_size;

/// Length in bytes.
const LONGEST: usize = 2_048;

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
        let Some(mut options) = Fields::open(path, Value::Object(options), problems) else {
            return MobilePushOptions::default();
        };
        let mut short = |name: &str, most| options.string(name, most, problems);
        let (subtitle, image, sound) =
            (short("subtitle", LONGEST), short("image", LONGEST), short("sound", LONGEST));
        let thread_id = short("threadId", LONGEST);
        let collapse_id = short("collapseId", apns::MAX_COLLAPSE_ID);
        let (category, interruption_level) =
            (short("category", LONGEST), short("interruptionLevel", LONGEST));
        let priority = short("priority", LONGEST);
        if image.as_deref().is_some_and(|image| !is_icon(image)) {
            let path = options.path("image");
            let message = format!("{path} must be a link or data:image/…");
            problems.push(Problem::new(path, "invalid_link", message));
        }
        if collapse_id.as_deref().is_some_and(|id| !id.bytes().all(|byte| (b' '..=b'~').contains(&byte))) {
            let path = options.path("collapseId");
            let message = format!("{path} must have printable ASCII characters only");
            problems.push(Problem::new(path, "invalid_character", message));
        }
        if priority.as_deref().is_some_and(|priority| !matches!(priority, "high" | "normal")) {
            let path = options.path("priority");
            let message = format!("{path} must be high or normal");
            problems.push(Problem::new(path, "unknown_value", message));
        }
        let ttl = options.whole_number("ttl", problems);
        if ttl.is_some_and(|ttl| ttl < 0) {
            let path = options.path("ttl");
            let message = format!("{path} must be seconds, 0 or more");
            problems.push(Problem::new(path, "out_of_range", message));
        }
        let mut object = |name: &str| options.free_object(name, problems).unwrap_or_default();
        let (android, apns, webpush) = (object("android"), object("apns"), object("webpush"));
        for (name, members) in [("android", &android), ("apns", &apns), ("webpush", &webpush)] {
            links::check(&options.path(name), members, problems);
        }
        check_apns(&options.path("apns"), &apns, problems);
        MobilePushOptions {
            subtitle,
            image,
            sound,
            badge: options.whole_number("badge", problems),
            thread_id,
            collapse_id,
            category,
            interruption_level,
            mutable_content: options.flag("mutableContent", problems).unwrap_or_default(),
            content_available: options.flag("contentAvailable", problems).unwrap_or_default(),
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
    use serde_json::json;

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
