//! The table of providers' answers and their meaning.

use std::time::Duration;

use domain::outcome::RetryLimit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Smtp,
    Apns,
    Fcm,
    WebPush,
    Twilio,
}

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Sent,
    Retry,
    /// The provider permanently refused the message.
    Failed,
    /// The provider permanently refused the message, because the target is dead.
    Gone,
    /// The credential or the account has a problem, so the next provider is called.
    Pause,
    /// The provider may or may not have accepted the message.
    Unknown,
}

/// Addition to the class of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    None,
    /// The retry comes after this delay at the earliest.
    NotBefore(Duration),
    /// The retry comes after the time in `Retry-After` at the earliest.
    AsAsked,
    /// At most this number of retries; then the delivery fails.
    Limit(RetryLimit),
    /// The target is dead for this provider only.
    HereOnly,
    /// The token is dead if it was registered before the time in the answer.
    Since,
}

/// A row of the table: answers from one provider that have the same meaning.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) provider: Provider,
    pub(crate) answers: &'static [&'static str],
    pub(crate) class: Class,
    pub(crate) note: Note,
}

impl Row {
    /// Number of times that the provider gives the answer before the delivery ends.
    pub(crate) fn times(&self) -> u32 {
        match self.note {
            Note::Limit(limit) => limit.retries + 1,
            _ => 1,
        }
    }
}

const fn within(retries: u32, minutes: u64) -> Note {
    Note::Limit(RetryLimit { retries, over: Duration::from_secs(minutes * 60) })
}

const fn row(provider: Provider, answers: &'static [&'static str], class: Class, note: Note) -> Row {
    Row { provider, answers, class, note }
}

const DAY: u64 = 24 * 60;
const FIVE_MINUTES: Note = Note::NotBefore(Duration::from_secs(300));

/// The table. Codes are written as in the tables of the channels; `x` stands for any digit, `*` for any other name.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(Provider::Smtp, &["connect", "TLS", "EHLO", "421"], Class::Retry, Note::None),
    row(Provider::Smtp, &["450", "451", "452", "4.x.x"], Class::Retry, Note::None),
    row(Provider::Smtp, &["4.7.x"], Class::Retry, FIVE_MINUTES),
    row(Provider::Smtp, &["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.2.1"], Class::Gone, Note::None),
    row(Provider::Smtp, &["5.2.2"], Class::Retry, within(3, DAY)),
    row(Provider::Smtp, &["552", "5.3.4", "5.5.x", "5.6.x"], Class::Failed, Note::None),
    row(Provider::Smtp, &["5.7.x"], Class::Failed, Note::None),
    row(Provider::Smtp, &["530", "534", "535"], Class::Pause, Note::None),
    row(Provider::Smtp, &["lost after the final dot"], Class::Unknown, Note::None),

    row(Provider::Apns, &["200"], Class::Sent, Note::None),
    row(Provider::Apns, &["400 BadDeviceToken", "400 DeviceTokenNotForTopic"], Class::Gone, Note::HereOnly),
    row(Provider::Apns, &["410 Unregistered", "410 ExpiredToken"], Class::Gone, Note::Since),
    row(Provider::Apns, &["400 *", "404 *", "405 *", "413 *"], Class::Failed, Note::None),
    row(Provider::Apns, &["403 ExpiredProviderToken"], Class::Retry, within(1, 5)),
    row(Provider::Apns, &["403 InvalidProviderToken", "403 BadCertificate", "403 BadCertificateEnvironment", "403 Forbidden",
                          "429 TooManyProviderTokenUpdates"], Class::Pause, Note::None),
    row(Provider::Apns, &["429 TooManyRequests"], Class::Retry, Note::None),
    row(Provider::Apns, &["500 *", "503 *"], Class::Retry, Note::None),

    row(Provider::Fcm, &["404 UNREGISTERED"], Class::Gone, Note::None),
    row(Provider::Fcm, &["403 SENDER_ID_MISMATCH"], Class::Gone, Note::HereOnly),
    row(Provider::Fcm, &["403 SENDER_ID_MISMATCH of over 20 %"], Class::Pause, Note::None),
    row(Provider::Fcm, &["400 INVALID_ARGUMENT message.token"], Class::Gone, Note::None),
    row(Provider::Fcm, &["400 INVALID_ARGUMENT"], Class::Failed, Note::None),
    row(Provider::Fcm, &["429 QUOTA_EXCEEDED", "503 UNAVAILABLE"], Class::Retry, Note::AsAsked),
    row(Provider::Fcm, &["500 INTERNAL"], Class::Retry, Note::None),
    row(Provider::Fcm, &["401 THIRD_PARTY_AUTH_ERROR", "oauth 401", "oauth 403"], Class::Pause, Note::None),

    row(Provider::WebPush, &["200", "201", "202"], Class::Sent, Note::None),
    row(Provider::WebPush, &["404", "410"], Class::Gone, Note::None),
    row(Provider::WebPush, &["400", "413"], Class::Failed, Note::None),
    row(Provider::WebPush, &["401", "403"], Class::Pause, Note::None),
    row(Provider::WebPush, &["429", "5xx"], Class::Retry, Note::AsAsked),
    row(Provider::WebPush, &["3xx"], Class::Failed, Note::None),

    row(Provider::Twilio, &["2xx"], Class::Sent, Note::None),
    row(Provider::Twilio, &["429", "20429", "30001"], Class::Retry, Note::None),
    row(Provider::Twilio, &["30008"], Class::Retry, within(1, 10)),
    row(Provider::Twilio, &["20003", "30002", "21408"], Class::Pause, Note::None),
    row(Provider::Twilio, &["21211", "21614", "30005", "30006"], Class::Gone, Note::None),
    row(Provider::Twilio, &["21610"], Class::Gone, Note::None),
    row(Provider::Twilio, &["30003"], Class::Retry, within(2, DAY)),
    row(Provider::Twilio, &["30004", "30007", "21612"], Class::Failed, Note::None),
    row(Provider::Twilio, &["5xx", "timeout"], Class::Unknown, Note::None),
];

/// Rules about answers that are checked by tests outside this suite: the rule, the name of the test, and its source file.
#[rustfmt::skip]
pub(crate) const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("SMTP: failures open the breaker", "consecutive_failures_open_the_breaker_and_any_sign_of_life_resets_the_count",
     include_str!("../../libs/domain/src/deliveries/breaker.rs")),
    ("SMTP 421: a new connection", "every_row_of_the_table_has_its_outcome",
     include_str!("../../services/email/tests/email/answers.rs")),
    ("SMTP 5.7.x: alert", "refusals_of_the_sender_are_counted_for_operators",
     include_str!("../../services/email/tests/email/answers.rs")),
    ("APNs 403 ExpiredProviderToken: new token", "an_expired_provider_token_is_renewed_and_the_push_repeated_at_once",
     include_str!("../../services/mobile-push/tests/mobile_push/apns.rs")),
    ("APNs GOAWAY: a new connection", "after_goaway_a_new_connection_is_used_without_loss_or_repetition",
     include_str!("../../services/mobile-push/tests/mobile_push/apns.rs")),
    ("Web Push 3xx: never followed", "a_redirection_is_not_followed",
     include_str!("../../services/web-push/tests/web_push/answers.rs")),
    ("Twilio 21610: no messages until START", "after_stop_a_number_gets_no_messages_until_start",
     include_str!("../api/deliveries/twilio_callbacks.rs")),
];

pub(crate) fn row_of(provider: Provider, answer: &str) -> &'static Row {
    let names = |row: &&Row| row.provider == provider && row.answers.contains(&answer);
    ROWS.iter().find(names).unwrap_or_else(|| panic!("the table has no answer {answer} of {provider:?}"))
}
