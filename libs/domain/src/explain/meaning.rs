//! Meaning of each status with its reason. `docs/statuses.md` is made from this table.

use crate::{Channel, Reason, Status};

/// Meaning of a status with its reason. `{who}`, `{what}` and `{provider}` in the texts stand for the recipient, the kind of message and
/// the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub sentence: &'static str,
    pub cause: &'static str,
    /// None if there is nothing to do.
    pub fix: Option<Fix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    pub text: &'static str,
    /// Command or call that helps, if one does.
    pub action: Option<&'static str>,
}

/// Names for the placeholders of a meaning.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    pub who: &'a str,
    pub channel: Option<Channel>,
    pub provider: Option<&'a str>,
}

impl Names<'_> {
    /// Names of a text about any recipient and channel.
    pub const ANY: Names<'static> = Names { who: "the recipient", channel: None, provider: None };

    /// Fills in the placeholders. The text then begins with a capital letter, unless it begins with a name.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let filled = text
            .replace("{what}", noun(self.channel))
            .replace("{provider}", self.provider.unwrap_or("the provider"))
            .replace("{who}", self.who);
        let is_name = text.starts_with("{who}") && self.who != Names::ANY.who
            || text.starts_with("{provider}") && self.provider.is_some();
        let mut letters = filled.chars();
        match letters.next() {
            Some(first) if !is_name => first.to_uppercase().chain(letters).collect(),
            _ => filled,
        }
    }
}

/// Noun for a message on a channel.
#[must_use]
pub fn noun(channel: Option<Channel>) -> &'static str {
    match channel {
        Some(Channel::InApp) => "inbox item",
        Some(Channel::Email) => "email",
        Some(Channel::WebPush) => "browser push",
        Some(Channel::MobilePush) => "phone push",
        Some(Channel::Sms) => "text message",
        _ => "message",
    }
}

impl Status {
    /// True if some deliveries have this status without a reason.
    #[must_use]
    pub fn occurs_without_reason(self) -> bool {
        match self {
            Status::Queued
            | Status::Sending
            | Status::Retrying
            | Status::Sent
            | Status::Delivered
            | Status::Expired => true,
            Status::Waiting
            | Status::Failed
            | Status::Unknown
            | Status::Skipped
            | Status::Parked
            | Status::Cancelled => false,
        }
    }
}

impl Reason {
    /// Statuses that deliveries have for this reason.
    #[must_use]
    pub fn statuses(self) -> &'static [Status] {
        match self {
            Reason::RecipientUnknown
            | Reason::RecipientErased
            | Reason::PreferenceOff
            | Reason::TopicChannelOff
            | Reason::NoAddress
            | Reason::InvalidAddress
            | Reason::UnprovenTarget
            | Reason::NoProvider
            | Reason::NoContent
            | Reason::NotSelected
            | Reason::Suppressed
            | Reason::ChannelUnavailable => &[Status::Skipped],
            Reason::TemplateError
            | Reason::ProviderRefused
            | Reason::InvalidContent
            | Reason::TooLarge
            | Reason::SenderNotAllowed
            | Reason::TargetGone => &[Status::Failed],
            Reason::RetriesExhausted => &[Status::Failed, Status::Parked],
            Reason::OutcomeUnknown => &[Status::Unknown],
            Reason::RequestCancelled => &[Status::Cancelled],
            Reason::BreakerOpen
            | Reason::RateLimited
            | Reason::ProviderBusy
            | Reason::RetryLater
            | Reason::LogFull => &[Status::Waiting],
        }
    }
}

/// Returns every status with every reason for it, in the order of the statuses.
pub fn pairs() -> impl Iterator<Item = (Status, Option<Reason>)> {
    Status::ALL.iter().flat_map(|&status| {
        let without = status.occurs_without_reason().then_some((status, None));
        let reasons = Reason::ALL.iter().filter(move |reason| reason.statuses().contains(&status));
        without.into_iter().chain(reasons.map(move |&reason| (status, Some(reason))))
    })
}

/// Returns the meaning of a status with its reason.
#[must_use]
pub fn meaning(status: Status, reason: Option<Reason>) -> Meaning {
    match (reason, status) {
        (None, _) => of_status(status),
        (Some(Reason::RetriesExhausted), Status::Parked) => Meaning {
            sentence: "the {what} is parked: every attempt failed temporarily.",
            cause: "The retries of the schedule are used up. Tidings keeps the delivery until an operator redrives it.",
            fix: Some(Fix {
                text: "remove the cause that the last attempt names, then redrive the delivery",
                action: Some("tidings parked redrive"),
            }),
        },
        (Some(reason), _) if Reason::WAITING.contains(&reason) => of_wait(reason),
        (Some(reason), _) => of_reason(reason),
    }
}

fn of_status(status: Status) -> Meaning {
    let none = |sentence, cause| Meaning { sentence, cause, fix: None };
    match status {
        Status::Queued => Meaning {
            sentence: "the {what} is in the queue.",
            cause: "The log holds the job or the inbox event, and no process has handled it yet.",
            fix: Some(Fix {
                text: "usually nothing to do; after more than a minute, check that the channel's service runs",
                action: None,
            }),
        },
        Status::Sending => none(
            "{provider} is being called with the {what}.",
            "A worker has claimed the delivery. If the worker dies, another one continues when the claim ends.",
        ),
        Status::Retrying | Status::Waiting => none(
            "the {what} is about to be tried again.",
            "The last attempt failed temporarily, and the next one is due.",
        ),
        Status::Sent => none(
            "{provider} accepted the {what}.",
            "The provider took over the message. Whether it arrives is known only if the provider sends a receipt.",
        ),
        Status::Delivered => none(
            "{who} has the {what}.",
            "The inbox lists the item, or the provider confirmed the message with a receipt.",
        ),
        Status::Expired => Meaning {
            sentence: "the {what} was not sent before the send expired.",
            cause: "The send's `expiresAt` passed while the delivery waited.",
            fix: Some(Fix { text: "send again, with a later `expiresAt` or without one", action: None }),
        },
        Status::Failed => none("the {what} failed.", "An earlier release stored no reason."),
        Status::Unknown => none("the outcome is unknown.", "An earlier release stored no reason."),
        Status::Skipped => none("the {what} was skipped.", "An earlier release stored no reason."),
        Status::Parked => none("the {what} is parked.", "An earlier release stored no reason."),
        Status::Cancelled => none("the {what} was cancelled.", "An earlier release stored no reason."),
    }
}

fn of_wait(reason: Reason) -> Meaning {
    let (sentence, cause, fix) = match reason {
        Reason::BreakerOpen => (
            "the {what} waits: {provider} keeps failing, and Tidings calls it again later.",
            "The circuit breaker of every provider that could send the message is open. `code` is the answer that opened it.",
            Some(Fix {
                text: "look up the code and mend the provider's settings or account; the delivery then continues by itself",
                action: Some("tidings provider test"),
            }),
        ),
        Reason::RateLimited => (
            "the {what} waits for its turn: {provider} may get only so many messages per second.",
            "The provider's `maxPerSecond` is used up.",
            Some(Fix {
                text: "usually nothing to do; raise `maxPerSecond` if the provider allows more",
                action: None,
            }),
        ),
        Reason::ProviderBusy => (
            "the {what} waits: as many calls to {provider} as Tidings makes at the same time are under way.",
            "The provider answers slowly, or many messages go to the same user or host at once.",
            None,
        ),
        Reason::LogFull => (
            "the {what} waits: the queue of its channel is full.",
            "The channel's stream has no room for further jobs, so the job waits in the database.",
            Some(Fix {
                text: "check that the workers of the channel run and keep up, and that the stream is large enough",
                action: None,
            }),
        ),
        _ => (
            "the {what} waits for its next attempt: {provider} failed temporarily.",
            "The last attempt failed temporarily. `code` is the provider's answer, and `nextAttemptAt` the time of the next attempt.",
            None,
        ),
    };
    Meaning { sentence, cause, fix }
}

#[allow(clippy::too_many_lines, reason = "one table, in which the compiler misses no reason")]
fn of_reason(reason: Reason) -> Meaning {
    let (sentence, cause, text, action) = match reason {
        Reason::RecipientUnknown => (
            "no {what}: {who} was no user of the app when the send was planned.",
            "The send named an identifier that is no user of the app, without a profile that would create the user.",
            "create the user, or send to the user's identifier; `onUnknownRecipient: \"create\"` creates missing users",
            Some("PUT /v3/users/{id}"),
        ),
        Reason::RecipientErased => (
            "no {what}: the user was erased.",
            "An erasure ends all deliveries to the user, and removes the user's data.",
            "",
            None,
        ),
        Reason::TemplateError => (
            "the {what} could not be rendered.",
            "The template failed with the data of this send, for example because a filter got a value of the wrong type.",
            "preview the template with the data of the send, mend it, and send again",
            Some("tidings template preview"),
        ),
        Reason::PreferenceOff => (
            "no {what}: {who} turned this channel off for the category.",
            "The user's preferences exclude the channel. Categories marked critical ignore preferences.",
            "only the user should change this; if the message must always arrive, mark its category as critical",
            None,
        ),
        Reason::TopicChannelOff => (
            "no {what}: the subscription of {who} to the topic leaves this channel out.",
            "The send goes to a topic, and the user's subscription or the topic turns the channel off.",
            "only the user should change this; send to the user directly if the message must arrive",
            None,
        ),
        Reason::NoAddress => (
            "no {what}: {who} has no address for this channel.",
            "The profile has no email address or phone number, no phone registered a push token, or no browser subscribed.",
            "add the address to the profile, or let the user's phone or browser register",
            Some("PUT /v3/users/{id}"),
        ),
        Reason::InvalidAddress => (
            "no {what}: the address in the profile of {who} is not valid.",
            "The profile contains a text that is neither an email address nor a phone number with its country code.",
            "correct the address in the profile",
            Some("PUT /v3/users/{id}"),
        ),
        Reason::UnprovenTarget => (
            "no {what}: no address of {who} on this channel is proven.",
            "The send has `provenTargets`, and every target of the user was registered by a caller without a proof.",
            "let the app's backend or the signed-in user write the address again",
            None,
        ),
        Reason::NoProvider => (
            "no {what}: the app has no provider for it.",
            "The app has no enabled provider for this channel, or none that serves this kind of target.",
            "add or enable a provider for the channel",
            Some("tidings provider set"),
        ),
        Reason::NoContent => (
            "no {what}: the send has no content for this channel.",
            "Neither the template nor the notification has a text for the channel.",
            "add content for the channel to the template or the send, or exclude the channel with `override.channels`",
            None,
        ),
        Reason::NotSelected => (
            "no {what}: the send selects other channels.",
            "`override.channels` of the send leaves this channel out.",
            "",
            None,
        ),
        Reason::Suppressed => (
            "no {what}: the address of {who} is suppressed.",
            "A provider reported this address, number, token or subscription as dead or as opted out earlier.",
            "ask {who} for another address, or lift the suppression if the address works again",
            Some("tidings suppression lift"),
        ),
        Reason::ChannelUnavailable => (
            "no {what}: Tidings does not send on this channel.",
            "The API accepts the name of the channel, but no service sends on it.",
            "remove the channel from `override.channels`",
            None,
        ),
        Reason::ProviderRefused => (
            "{provider} refused the {what}.",
            "The provider's answer is final. The attempt has its code and text.",
            "look up the provider's code, correct what it names, and send again",
            None,
        ),
        Reason::InvalidContent => (
            "the {what} was not sent: its content does not fit the provider's format.",
            "A text, link or override of the send is not valid for the provider. The attempt names it.",
            "correct the content that the attempt names, and send again",
            None,
        ),
        Reason::TooLarge => (
            "the {what} was not sent: it is larger than the provider accepts.",
            "The message is too large even without its body, for example because of `data` or an attachment.",
            "send less `data`, or smaller attachments",
            None,
        ),
        Reason::SenderNotAllowed => (
            "the {what} was not sent: its sender is not allowed.",
            "The send or the template sets a sender that the provider's `allowedSenders` does not list.",
            "use an allowed sender, or add this one to the provider",
            Some("tidings provider set"),
        ),
        Reason::TargetGone => (
            "the {what} did not arrive: {provider} reports the address of {who} as dead.",
            "The mailbox, number, app or browser subscription no longer exists. Tidings suppresses the target.",
            "ask {who} for another address, or lift the suppression if the address works again",
            Some("tidings suppression lift"),
        ),
        Reason::RetriesExhausted => (
            "the {what} failed: the retries for this kind of failure are used up.",
            "The provider limits how often a message may be repeated after this temporary failure.",
            "wait until the cause that the last attempt names is gone, then send again",
            None,
        ),
        Reason::OutcomeUnknown => (
            "it is unknown whether {who} got the {what}.",
            "The answer to the last call was lost. Tidings does not repeat the call, because {who} could get the message twice.",
            "look the message up at the provider before you send it again",
            None,
        ),
        Reason::RequestCancelled => (
            "the {what} was cancelled before it was sent.",
            "A call of the app or an operator cancelled the request.",
            "",
            None,
        ),
        Reason::BreakerOpen
        | Reason::RateLimited
        | Reason::ProviderBusy
        | Reason::RetryLater
        | Reason::LogFull => return of_wait(reason),
    };
    Meaning { sentence, cause, fix: (!text.is_empty()).then_some(Fix { text, action }) }
}

/// Returns the table of all statuses and reasons for `docs/statuses.md`. Each status has a heading, and each row an anchor.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    let mut last = None;
    for (status, reason) in pairs() {
        if last.replace(status) != Some(status) {
            text += &format!("\n## {status}\n");
            text += "| reason | meaning | cause | fix |\n|---|---|---|---|\n";
        }
        let name = reason.map_or_else(|| "none".to_owned(), |reason| format!("`{reason}`"));
        let Meaning { sentence, cause, fix } = meaning(status, reason);
        let fix = fix.map_or_else(|| "nothing to do".to_owned(), |fix| fix.shown(&Names::ANY));
        let [sentence, cause] = [sentence, cause].map(|text| Names::ANY.fill(text));
        text +=
            &format!("| <a id=\"{}\"></a>{name} | {sentence} | {cause} | {fix} |\n", anchor(status, reason));
    }
    text
}

/// Anchor of a status and reason in `docs/statuses.md`.
#[must_use]
pub fn anchor(status: Status, reason: Option<Reason>) -> String {
    match reason {
        Some(reason) => format!("{status}-{reason}"),
        None => format!("{status}-none"),
    }
}

impl Fix {
    /// Returns the text, and the action after it.
    #[must_use]
    pub fn shown(&self, names: &Names<'_>) -> String {
        let text = names.fill(self.text);
        match self.action {
            Some(action) => format!("{text}: `{action}`"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_status_and_reason_has_a_sentence_a_cause_and_a_fix_or_nothing_to_do() {
        let mut sentences = BTreeSet::new();
        for (status, reason) in pairs() {
            let Meaning { sentence, cause, fix } = meaning(status, reason);
            assert!(sentence.ends_with('.') && cause.ends_with('.'), "{status} {reason:?}");
            assert!(!cause.contains("earlier release"), "{status} {reason:?} has no cause");
            assert!(fix.is_none_or(|fix| !fix.text.is_empty()), "{status} {reason:?}");
            assert!(sentences.insert(sentence), "{status} {reason:?} has the sentence of another pair");
            assert!(!Names::ANY.fill(sentence).contains('{'), "{status} {reason:?}");
        }
        assert!(pairs().any(|(_, reason)| reason == Some(Reason::BreakerOpen)));
    }

    #[test]
    fn every_reason_occurs_and_every_status_has_a_row() {
        for reason in Reason::ALL {
            assert!(!reason.statuses().is_empty(), "{reason}");
        }
        for &status in Status::ALL {
            assert!(pairs().any(|(found, _)| found == status), "{status}");
        }
        for &reason in Reason::ALL.iter().filter(|reason| !Reason::WAITING.contains(reason)) {
            let planned = reason.planned_status();
            let is_end = reason.statuses().iter().any(|status| status.is_terminal());
            assert!(is_end && planned.is_terminal(), "{reason}");
        }
    }

    #[test]
    fn a_sentence_names_the_person_as_the_app_does() {
        let names = Names { who: "ada", channel: Some(Channel::Email), provider: Some("main") };
        let sentence = |status, reason| names.fill(meaning(status, reason).sentence);
        assert_eq!(sentence(Status::Delivered, None), "ada has the email.");
        assert_eq!(sentence(Status::Failed, Some(Reason::ProviderRefused)), "main refused the email.");
    }

    #[test]
    fn the_page_of_the_statuses_is_made_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statuses.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (head, rows) = page.split_at(page.find("\n## ").unwrap());
        if std::env::var_os("TIDINGS_TEST_WRITE_PAGE").is_some() {
            std::fs::write(path, format!("{head}{}", markdown())).unwrap();
        } else {
            assert_eq!(rows, markdown(), "run this test with TIDINGS_TEST_WRITE_PAGE=1");
        }
    }
}
