//! Meaning of an HTTP status without a known provider code, and of a missing answer.

use domain::{Answer, Outcome, Problem};
use reqwest::Url;
use worker::exchange::{Reply, Silence};
use worker::verdict::{fits, presentable};

use crate::http::template::{in_form, in_json, in_url};

/// Statuses and their classes; the first row that fits counts, `x` stands for any digit. A provider that failed while
/// it served a call may have sent the message: nothing makes a second call safe.
pub const FAMILIES: &[(&str, Outcome)] = &[
    ("401", Outcome::PauseProvider),
    ("403", Outcome::PauseProvider),
    ("408", Outcome::RETRY),
    ("429", Outcome::RETRY),
    ("3xx", Outcome::Failed),
    ("4xx", Outcome::Failed),
    ("5xx", Outcome::Unknown),
];

/// The row that decides.
#[must_use]
pub fn family(status: u16) -> Option<&'static (&'static str, Outcome)> {
    let digits = status.to_string();
    FAMILIES.iter().find(|(pattern, _)| fits(pattern, &digits))
}

/// The class of a reply by its status alone. What is no status of HTTP leaves open what became of the message.
pub(crate) fn by_status(reply: &Reply) -> Outcome {
    family(reply.status).map_or(Outcome::Unknown, |(_, outcome)| waiting(outcome.clone(), reply))
}

/// The answer with what it says of the provider: of 403 a number that it may not send to is as likely the cause as a
/// credential, so that it takes several users to prove the latter.
pub(crate) fn by_evidence(answer: Answer, status: u16) -> Answer {
    if status == 403 { answer.blaming_user() } else { answer }
}

/// A retry waits as long as the provider asked.
pub(crate) fn waiting(outcome: Outcome, reply: &Reply) -> Outcome {
    match outcome {
        Outcome::Retry { after, limit } => Outcome::Retry { after: reply.retry_after.or(after), limit },
        Outcome::Repeat { after } => Outcome::Repeat { after: reply.retry_after.or(after) },
        other => other,
    }
}

/// The answer to a message that was met with silence.
pub(crate) fn of_silence(silence: Silence, private: &Private) -> Answer {
    let answer = silence.answer();
    Answer { message: said(&answer.message, private), ..answer }
}

/// The answer to a call that sends nothing and was met with silence, which leaves nothing open.
pub(crate) fn of_silent_probe(silence: Silence) -> Answer {
    let answer = of_silence(silence, &Private::default());
    match answer.outcome {
        Outcome::Unknown => Answer { outcome: Outcome::RETRY, ..answer },
        _ => answer,
    }
}

/// Parts of a message that a provider's text may repeat and that must not be recorded: the text may be a one-time code.
#[derive(Default)]
pub(crate) struct Private(Vec<String>);

impl Private {
    /// The number, with its `+` or without, the text, and the sender; each as JSON and forms write it, too. Of the text
    /// also each word with a digit in it, since what is repeated may be cut or wrapped.
    pub(crate) fn of(number: &str, text: &str, from: &str) -> Private {
        let mut hidden = Vec::new();
        for whole in [text, number, number.trim_start_matches('+'), from] {
            hidden.extend([in_json(whole), in_form(whole), in_url(whole), whole.to_owned()]);
        }
        let words = text.split(|c: char| !c.is_alphanumeric());
        hidden.extend(words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).map(str::to_owned));
        Private(hidden)
    }

    /// The same, and these texts.
    pub(crate) fn and<'a>(mut self, texts: impl Iterator<Item = &'a str>) -> Private {
        for text in texts {
            self.0.extend([in_json(text), in_form(text), in_url(text), text.to_owned()]);
        }
        self
    }
}

/// Text of a provider, without those parts.
pub(crate) fn said(words: &str, private: &Private) -> String {
    let hidden: Vec<&str> = private.0.iter().map(String::as_str).collect();
    presentable(words, &hidden)
}

/// An answer for which no provider was asked.
pub(crate) fn ours(outcome: Outcome, code: &str, message: impl Into<String>) -> Answer {
    Answer::new(outcome, code, message)
}

/// A URL with these segments below it.
pub(crate) fn below(base: &Url, segments: &[&str]) -> Option<Url> {
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
    Some(url)
}

/// The answer of a provider whose settings cannot be used.
pub(crate) fn unusable(problems: &[Problem]) -> Answer {
    let says: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    ours(Outcome::PauseProvider, "settings", says.join("; "))
}
