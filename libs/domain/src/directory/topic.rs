use serde_json::{Value, json};

use crate::body::{Schemas, reference};
use crate::fields::MAX_IDENTIFIER;
use crate::{Channel, Problem};

/// Name for both kinds of push in the channels of a subscription.
const PUSH: &str = "push";
/// Maximum number of channels in a request. A repeated channel counts each time.
pub const MAX_CHANNELS: usize = 100;

/// The only channels on which a topic may reach a subscriber, in the order of [`Channel::ALL`]. None if it may use all.
pub type TopicChannels = Option<Vec<Channel>>;

/// Accepts 1 to 255 of the characters `A-Z a-z 0-9 : . _ -`, but not `.` or `..`, which clients remove from the paths of URLs (RFC 3986,
/// section 5.2.4).
#[must_use]
pub fn is_topic_identifier(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    (1..=MAX_IDENTIFIER).contains(&text.len()) && text.bytes().all(is_allowed) && ![".", ".."].contains(&text)
}

pub fn check_topic_identifier(path: &str, text: String, problems: &mut Vec<Problem>) -> Option<String> {
    if is_topic_identifier(&text) {
        return Some(text);
    }
    let message = format!(
        "{path} must be 1 to {MAX_IDENTIFIER} of the characters A-Z a-z 0-9 : . _ - to identify a topic, and not . or .."
    );
    problems.push(Problem::new(path, "invalid_topic", message));
    None
}

/// Returns the limit that a list of allowed channels sets: none if the list has every channel on which Tidings sends.
#[must_use]
pub fn limit(allowed: &[Channel]) -> TopicChannels {
    let is_limit = Channel::DELIVERED.iter().any(|channel| !allowed.contains(channel));
    is_limit.then(|| Channel::ALL.iter().copied().filter(|channel| allowed.contains(channel)).collect())
}

/// Reads a list of names of channels. `push` means both kinds of push.
pub fn read_channels(path: &str, names: &[Value], problems: &mut Vec<Problem>) -> Vec<Channel> {
    if names.len() > MAX_CHANNELS {
        let message = format!("{path} has {} elements; at most {MAX_CHANNELS} are allowed", names.len());
        problems.push(Problem::new(path, "too_many", message));
        return Vec::new();
    }
    let mut channels = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match name.as_str().map(|name| (name, name.parse::<Channel>())) {
            Some((_, Ok(channel))) => channels.push(channel),
            Some((PUSH, _)) => channels.extend([Channel::WebPush, Channel::MobilePush]),
            _ => problems.push(unknown_channel(&format!("{path}[{index}]"))),
        }
    }
    channels
}

fn unknown_channel(path: &str) -> Problem {
    let names: Vec<_> = Channel::DELIVERED.iter().map(|channel| channel.as_str()).collect();
    Problem::new(path, "unknown_channel", format!("{path} must be one of {}, {PUSH}", names.join(", ")))
}

crate::schemas! {
    /// A channel of a subscription.
    pub ChannelOfTopic = |schemas: &mut Schemas| channel_of_topic(schemas);
}

fn channel_of_topic(_: &mut Schemas) -> Value {
    json!({"anyOf": [reference("Channel"), {"type": "string", "enum": [PUSH]}],
        "description": "A channel. `push` means `webPush` and `mobilePush`."})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_identifiers_have_plain_characters_and_a_limited_length() {
        let longest = "x".repeat(MAX_IDENTIFIER);
        for topic in ["news", "A-z_0.9:x", "7", "-", &longest] {
            assert!(is_topic_identifier(topic), "{topic}");
        }
        let too_long = "x".repeat(MAX_IDENTIFIER + 1);
        for other in ["", ".", "..", " ", "a b", "a/b", "é", "a\0", "a,b", "a%20b", "news ", &too_long] {
            assert!(!is_topic_identifier(other), "{other:?}");
        }
    }

    #[test]
    fn a_list_of_all_channels_is_no_limit_and_push_means_both_kinds() {
        let read = |names: Value| {
            let mut problems = Vec::new();
            let channels = read_channels("channels", names.as_array().unwrap(), &mut problems);
            (
                limit(&channels),
                problems.into_iter().map(|problem| (problem.field, problem.code)).collect::<Vec<_>>(),
            )
        };
        let (pushes, problems) = read(json!(["push", "email", "slack", "email"]));
        let expected = [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Slack];
        assert_eq!((pushes.as_deref(), problems), (Some(expected.as_slice()), Vec::new()));
        assert_eq!(read(json!([])).0, Some(Vec::new()));
        assert_eq!(read(json!(["sms", "push", "email", "inApp"])).0, None);
        let (_, problems) = read(json!(["mail", 7, "Push"]));
        let at = |index: usize| (format!("channels[{index}]"), "unknown_channel");
        assert_eq!(problems, [at(0), at(1), at(2)]);
        let (_, problems) = read(json!(vec!["email"; MAX_CHANNELS + 1]));
        assert_eq!(problems, [("channels".to_owned(), "too_many")]);
    }

    #[test]
    fn the_problem_of_an_invalid_identifier_names_the_rule() {
        let mut problems = Vec::new();
        assert_eq!(
            check_topic_identifier("topic", "news".to_owned(), &mut problems).as_deref(),
            Some("news")
        );
        assert_eq!(check_topic_identifier("topic", "a b".to_owned(), &mut problems), None);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((problem.field.as_str(), problem.code), ("topic", "invalid_topic"));
        assert!(
            problem.message.contains("1 to 255 of the characters A-Z a-z 0-9 : . _ -"),
            "{}",
            problem.message
        );
    }
}
