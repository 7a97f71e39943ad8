//! Answers for HTTP calls to SMS providers, for a response without a known code and for a call without a response.

use domain::{Answer, Outcome};
use reqwest::Url;
use worker::exchange::{NoReply, Reply};
use worker::verdict::{presentable, row};

use crate::http::template::{in_form, in_json, in_url};

/// Outcomes by HTTP status. The first matching row applies; `x` matches any digit. After a 5xx the outcome is unknown:
/// the provider may have sent the message, so a second call is not safe.
pub const FAMILIES: &[(&str, Outcome)] = &[
    ("401", Outcome::PauseProvider),
    ("403", Outcome::PauseProvider),
    ("408", Outcome::RETRY),
    ("429", Outcome::RETRY),
    ("3xx", Outcome::Failed),
    ("4xx", Outcome::Failed),
    ("5xx", Outcome::Unknown),
];

#[must_use]
pub fn family(status: u16) -> Option<&'static (&'static str, Outcome)> {
    row(FAMILIES, status, "")
}

/// Outcome by the HTTP status alone; unknown if no row of [`FAMILIES`] matches.
pub(crate) fn by_status(reply: &Reply) -> Outcome {
    family(reply.status).map_or(Outcome::Unknown, |(_, outcome)| with_retry_after(outcome.clone(), reply))
}

/// Marks a 403 as possibly caused by the recipient. A 403 means that the account may not send to this number, or that the
/// credential is bad. The credential is considered bad only after 403s for several users.
pub(crate) fn blaming_user_if_forbidden(answer: Answer, status: u16) -> Answer {
    if status == 403 { answer.blaming_user() } else { answer }
}

/// Replaces the delay before the next call with the reply's `Retry-After`. Changes nothing if the reply has no such
/// header, or if the outcome is neither `Retry` nor `Repeat`.
pub(crate) fn with_retry_after(outcome: Outcome, reply: &Reply) -> Outcome {
    match outcome {
        Outcome::Retry { after, limit } => Outcome::Retry { after: reply.retry_after.or(after), limit },
        Outcome::Repeat { after } => Outcome::Repeat { after: reply.retry_after.or(after) },
        other => other,
    }
}

pub(crate) fn answer_without_reply(no_reply: NoReply, private: &PrivateTexts) -> Answer {
    let answer = no_reply.answer();
    Answer { message: redacted(&answer.message, private), ..answer }
}

/// Answers a probe, which sends no message: an unknown outcome becomes a retry.
pub(crate) fn probe_answer_without_reply(no_reply: NoReply) -> Answer {
    let answer = answer_without_reply(no_reply, &PrivateTexts::default());
    match answer.outcome {
        Outcome::Unknown => Answer { outcome: Outcome::RETRY, ..answer },
        _ => answer,
    }
}

/// Texts that are removed from a provider's response before it is recorded. The response may repeat the message, which
/// may contain a one-time code.
#[derive(Default)]
pub(crate) struct PrivateTexts(Vec<String>);

impl PrivateTexts {
    /// Collects the text, the sender and the number, each also encoded for JSON, forms and URLs, and each word of the text that contains a
    /// digit: it may be a one-time code, and the provider may repeat only a part of the text.
    pub(crate) fn of(number: &str, text: &str, from: &str) -> PrivateTexts {
        let mut hidden = Vec::new();
        for whole in [text, number, number.trim_start_matches('+'), from] {
            hidden.extend([in_json(whole), in_form(whole), in_url(whole), whole.to_owned()]);
        }
        let words = text.split(|c: char| !c.is_alphanumeric());
        hidden.extend(words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).map(str::to_owned));
        PrivateTexts(hidden)
    }

    pub(crate) fn and<'a>(mut self, texts: impl Iterator<Item = &'a str>) -> PrivateTexts {
        for text in texts {
            self.0.extend([in_json(text), in_form(text), in_url(text), text.to_owned()]);
        }
        self
    }
}

pub(crate) fn redacted(words: &str, private: &PrivateTexts) -> String {
    let hidden: Vec<&str> = private.0.iter().map(String::as_str).collect();
    presentable(words, &hidden)
}

/// Returns None if the URL cannot have a path.
pub(crate) fn with_path(base: &Url, segments: &[&str]) -> Option<Url> {
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
    Some(url)
}
