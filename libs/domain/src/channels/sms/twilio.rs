use std::time::Duration;

use crate::Outcome;
use crate::outcome::RetryLimit;

const DAY: Duration = Duration::from_secs(24 * 3600);
const ONCE: Outcome = Outcome::Retry {
    after: None,
    limit: Some(RetryLimit { retries: 1, over: Duration::from_secs(10 * 60) }),
};
const TWICE_A_DAY: Outcome =
    Outcome::Retry { after: None, limit: Some(RetryLimit { retries: 2, over: DAY }) };

/// Error codes of <https://www.twilio.com/docs/api/errors>.
pub const TABLE: &[(u32, Outcome)] = &[
    // A problem with the credentials, the account or its permissions.
    (20003, Outcome::PauseProvider),
    (20005, Outcome::PauseProvider),
    (20008, Outcome::PauseProvider),
    (20404, Outcome::PauseProvider),
    (30002, Outcome::PauseProvider),
    (21408, Outcome::PauseProvider),
    (21608, Outcome::PauseProvider),
    // A problem with the account's own number or messaging service.
    (21212, Outcome::PauseProvider),
    (21603, Outcome::PauseProvider),
    (21606, Outcome::PauseProvider),
    (21659, Outcome::PauseProvider),
    (21660, Outcome::PauseProvider),
    (21701, Outcome::PauseProvider),
    (21703, Outcome::PauseProvider),
    (30032, Outcome::PauseProvider),
    (30034, Outcome::PauseProvider),
    // Too many requests, or the queue is full.
    (20429, Outcome::RETRY),
    (21611, Outcome::RETRY),
    (30001, Outcome::RETRY),
    (30022, Outcome::RETRY),
    // Unknown error, or the phone is switched off or unreachable.
    (30008, ONCE),
    (30003, TWICE_A_DAY),
    // The number does not exist or is not a mobile number, or the recipient opted out and has not sent START since.
    (21211, Outcome::GONE),
    (21614, Outcome::GONE),
    (21635, Outcome::GONE),
    (30005, Outcome::GONE),
    (30006, Outcome::GONE),
    (21610, Outcome::GONE),
    // The message was blocked, filtered or not routed, or its content was refused.
    (30004, Outcome::Failed),
    (30007, Outcome::Failed),
    (21612, Outcome::Failed),
    (21602, Outcome::Failed),
    (21617, Outcome::Failed),
    (30019, Outcome::Failed),
];

/// Codes about the sender's number. If the send chose that number, the account is not at fault.
const SENDER: [u32; 5] = [21212, 21603, 21606, 21659, 21660];

/// Codes for a region or a type of number to which the account may not send. Another provider may be able to reach the recipient,
/// and this provider can still reach other recipients.
const ABOUT_NUMBER: [u32; 4] = [21408, 21608, 30032, 30034];

#[must_use]
pub fn is_about_number(code: u32) -> bool {
    ABOUT_NUMBER.contains(&code)
}

#[must_use]
pub fn outcome(code: u32) -> Option<Outcome> {
    TABLE.iter().find(|(known, _)| *known == code).map(|(_, outcome)| outcome.clone())
}

#[must_use]
pub fn is_about_sender(code: u32) -> bool {
    SENDER.contains(&code)
}

/// Returns the outcome of an undelivered message. An unknown or missing code is a permanent failure, because Twilio had accepted the
/// message and tried to deliver it.
#[must_use]
pub fn of_undelivered(code: Option<u32>) -> Outcome {
    code.and_then(outcome).unwrap_or(Outcome::Failed)
}
