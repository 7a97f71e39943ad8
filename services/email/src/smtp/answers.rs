use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::{Answer, Outcome};
use worker::verdict::presentable;

use super::failure::{Failure, Stage};
use super::reply::Reply;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpVerdict {
    Retry,
    RetryAfter(Duration),
    /// Retry with a limit on the number of retries and on their total time.
    RetryWithin(RetryLimit),
    Failed,
    /// Permanent failure: the server blocks the sender, because of a policy or a bad reputation. Operators are alerted.
    Blocked,
    TargetGone,
    /// The server rejects the login or the account: pause the provider.
    PauseProvider,
}

const MAILBOX_FULL: RetryLimit = RetryLimit { retries: 3, over: Duration::from_secs(24 * 3600) };
const GREYLISTED: Duration = Duration::from_secs(5 * 60);

/// Verdicts by reply code. The first matching row applies. In an enhanced code (RFC 3463), `x` matches any
/// number; in a basic code (RFC 5321), it matches any digit.
pub const TABLE: &[(&str, SmtpVerdict)] = &[
    // Authentication failed (RFC 4954 section 6). The enhanced code does not matter.
    ("530", SmtpVerdict::PauseProvider),
    ("534", SmtpVerdict::PauseProvider),
    ("535", SmtpVerdict::PauseProvider),
    // The mailbox or domain does not exist, was moved, or is disabled.
    ("5.1.1", SmtpVerdict::TargetGone),
    ("5.1.2", SmtpVerdict::TargetGone),
    ("5.1.3", SmtpVerdict::TargetGone),
    ("5.1.6", SmtpVerdict::TargetGone),
    ("5.2.1", SmtpVerdict::TargetGone),
    ("5.2.2", SmtpVerdict::RetryWithin(MAILBOX_FULL)),
    // The email is too large, a command is invalid, or the content is refused.
    ("5.3.4", SmtpVerdict::Failed),
    ("5.5.x", SmtpVerdict::Failed),
    ("5.6.x", SmtpVerdict::Failed),
    // Policy, SPF, DKIM and block lists. These replies are about the sender, never about the recipient's address.
    ("5.7.x", SmtpVerdict::Blocked),
    ("4.7.x", SmtpVerdict::RetryAfter(GREYLISTED)),
    ("4.x.x", SmtpVerdict::Retry),
    ("421", SmtpVerdict::Retry),
    ("450", SmtpVerdict::Retry),
    ("451", SmtpVerdict::Retry),
    ("452", SmtpVerdict::Retry),
    ("552", SmtpVerdict::Failed),
    ("4xx", SmtpVerdict::Retry),
    ("5xx", SmtpVerdict::Failed),
];

/// Converts the result. The texts in `hidden`, such as addresses and the subject, are removed from the server's message.
#[must_use]
pub fn answer(result: &Result<Reply, Failure>, hidden: &[&str]) -> Answer {
    let recorded = |outcome, code: &str, message: &str| {
        let on_one_line = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        Answer::new(outcome, code, presentable(&on_one_line, hidden))
    };
    match result {
        Ok(reply) => {
            recorded(Outcome::Sent { provider_id: queue_id(&reply.text) }, &reply.codes(), &reply.text)
        }
        Err(Failure::Refused { stage, reply }) => {
            let verdict = row(reply).map_or(SmtpVerdict::Retry, |(_, verdict)| *verdict);
            let answer = recorded(outcome(verdict_at(*stage, verdict)), &reply.codes(), &reply.text);
            match stage {
                Stage::Connect | Stage::Login => answer.blaming_provider(),
                // From RCPT on, a reply is about this recipient or message and does not count against the provider. The
                // exception is 421, with which the server closes the connection.
                stage if *stage >= Stage::Rcpt && reply.code != 421 => answer.sparing_provider(),
                _ => answer,
            }
        }
        Err(Failure::Busy) => {
            let words = "all connections to the server were in use";
            recorded(outcome(SmtpVerdict::Retry), "busy", words).sparing_provider()
        }
        Err(Failure::Abandoned) => {
            let words = "the worker stopped or lost its claim before the email was complete";
            recorded(outcome(SmtpVerdict::Retry), "abandoned", words).sparing_provider()
        }
        Err(Failure::Forbidden { cause }) => recorded(Outcome::PauseProvider, "not_public", cause),
        Err(Failure::NoToken { is_refused: true, cause }) => recorded(Outcome::PauseProvider, "oauth", cause),
        Err(Failure::NoToken { is_refused: false, cause }) => {
            recorded(Outcome::RETRY, "oauth", cause).blaming_provider()
        }
        Err(Failure::Unsupported { stage: Stage::Login, what }) => {
            recorded(Outcome::PauseProvider, "auth", &format!("the server does not support {what}"))
        }
        Err(Failure::Unsupported { what, .. }) => {
            recorded(Outcome::Failed, "unsupported", &format!("the server does not support {what}"))
        }
        Err(Failure::Broken { stage: Stage::Connect | Stage::Login, cause }) => {
            recorded(outcome(SmtpVerdict::Retry), "connect", cause).blaming_provider()
        }
        Err(Failure::Broken { stage, cause }) => {
            recorded(outcome_without_reply(*stage), "connection_lost", cause)
        }
        Err(Failure::TimedOut { stage }) => {
            let answer =
                recorded(outcome_without_reply(*stage), "timeout", &format!("no answer to {stage} in time"));
            if matches!(stage, Stage::Connect | Stage::Login) { answer.blaming_provider() } else { answer }
        }
    }
}

/// Returns true if operators must be alerted because the server blocks the sender, and therefore all its emails.
#[must_use]
pub fn is_alarming(result: &Result<Reply, Failure>) -> bool {
    let Err(Failure::Refused { stage, reply }) = result else { return false };
    row(reply).is_some_and(|(_, verdict)| verdict_at(*stage, *verdict) == SmtpVerdict::Blocked)
}

impl Reply {
    /// Basic and enhanced code, such as `550 5.1.1`.
    #[must_use]
    pub fn codes(&self) -> String {
        match self.enhanced() {
            Some(enhanced) => format!("{} {enhanced}", self.code),
            None => self.code.to_string(),
        }
    }

    /// Enhanced code at the start of a line, if its class agrees with the basic code (RFC 2034 section 4).
    #[must_use]
    pub fn enhanced(&self) -> Option<&str> {
        self.text.lines().find_map(|line| {
            // Some servers write `#5.1.1` or `5.1.1:`.
            let word = line.split_whitespace().next()?.trim_matches(['#', ':', ',', '(', ')', '[', ']']);
            let mut numbers = word.split('.').map(str::parse::<u16>);
            let (Some(Ok(class)), Some(Ok(_)), Some(Ok(_)), None) =
                (numbers.next(), numbers.next(), numbers.next(), numbers.next())
            else {
                return None;
            };
            (class == self.code / 100).then_some(word)
        })
    }
}

#[must_use]
pub fn row(reply: &Reply) -> Option<&'static (&'static str, SmtpVerdict)> {
    let basic = reply.code.to_string();
    let enhanced = reply.enhanced().unwrap_or_default();
    TABLE.iter().find(|(pattern, _)| {
        if pattern.contains('.') {
            matches(pattern.split('.'), enhanced.split('.'))
        } else {
            matches(pattern.split(""), basic.split(""))
        }
    })
}

fn matches<'a>(mut pattern: impl Iterator<Item = &'a str>, mut code: impl Iterator<Item = &'a str>) -> bool {
    loop {
        match (pattern.next(), code.next()) {
            (None, None) => return true,
            (Some("x"), Some(_)) => {}
            (Some(expected), Some(found)) if expected == found => {}
            _ => return false,
        }
    }
}

/// Adapts a verdict: before RCPT the server does not know the recipient, so a reply can only be about the connection, the login or the
/// sender.
fn verdict_at(stage: Stage, verdict: SmtpVerdict) -> SmtpVerdict {
    match (stage, verdict) {
        (_, SmtpVerdict::Retry | SmtpVerdict::RetryAfter(_)) => verdict,
        (Stage::Connect, _) => SmtpVerdict::Retry,
        (Stage::Login, _) => SmtpVerdict::PauseProvider,
        (Stage::Mail, SmtpVerdict::TargetGone | SmtpVerdict::RetryWithin(_)) => SmtpVerdict::Failed,
        _ => verdict,
    }
}

fn outcome(verdict: SmtpVerdict) -> Outcome {
    match verdict {
        SmtpVerdict::Retry => Outcome::RETRY,
        SmtpVerdict::RetryAfter(after) => Outcome::Retry { after: Some(after), limit: None },
        SmtpVerdict::RetryWithin(limit) => Outcome::Retry { after: None, limit: Some(limit) },
        SmtpVerdict::Failed | SmtpVerdict::Blocked => Outcome::Failed,
        SmtpVerdict::TargetGone => Outcome::GONE,
        SmtpVerdict::PauseProvider => Outcome::PauseProvider,
    }
}

/// Returns the outcome if the server did not reply. The outcome is unknown after the final dot, because the server may have accepted
/// the email. At earlier stages it is a retry.
fn outcome_without_reply(stage: Stage) -> Outcome {
    if stage == Stage::Dot { Outcome::Unknown } else { outcome(SmtpVerdict::Retry) }
}

/// Servers commonly report it as `queued as X` or `id=X`.
fn queue_id(text: &str) -> Option<String> {
    let (_, after) = text.split_once("queued as ").or_else(|| text.split_once("id="))?;
    let id = after.split([' ', ';', ',']).next()?.trim_end_matches('.');
    (!id.is_empty()).then(|| id.chars().take(100).collect())
}
