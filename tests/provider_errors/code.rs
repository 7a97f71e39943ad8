//! Compares the table of this suite with the tables in the code of the channels, and with the cases of this suite.

use domain::Outcome;
use domain::sms::twilio;
use email::smtp::answers as smtp;
use mobile_push::{apns, fcm};
use worker::Verdict;

use crate::table::{Class, ELSEWHERE, Note, Provider, ROWS};

/// Answers without a code. The tables in the code of the channels do not contain them.
const NO_CODES: &[(Provider, &str)] = &[
    (Provider::Smtp, "connect"),
    (Provider::Smtp, "TLS"),
    (Provider::Smtp, "EHLO"),
    (Provider::Smtp, "lost after the final dot"),
    (Provider::Apns, "200"),
    (Provider::Fcm, crate::fcm::OVER_A_FIFTH),
    (Provider::Twilio, "2xx"),
    (Provider::Twilio, "timeout"),
];

#[test]
fn every_answer_in_the_table_has_a_case_and_every_case_is_in_the_table() {
    let cases: Vec<(Provider, &str)> = crate::smtp::CASES
        .iter()
        .map(|case| (Provider::Smtp, case.0))
        .chain(crate::apns::CASES.iter().map(|case| (Provider::Apns, case.0)))
        .chain(crate::fcm::CASES.iter().map(|case| (Provider::Fcm, case.0)))
        .chain(crate::web_push::CASES.iter().map(|case| (Provider::WebPush, case.0)))
        .chain(crate::twilio::CASES.iter().map(|case| (Provider::Twilio, case.0)))
        .collect();
    let answers: Vec<_> =
        ROWS.iter().flat_map(|row| row.answers.iter().map(|answer| (row.provider, *answer))).collect();
    for answer in &answers {
        assert!(cases.contains(answer), "no case for {answer:?}");
    }
    for case in &cases {
        assert_eq!(answers.iter().filter(|answer| *answer == case).count(), 1, "{case:?}");
    }
}

#[test]
fn every_answer_in_the_table_is_in_the_code_with_its_class() {
    for row in ROWS {
        for answer in row.answers {
            if NO_CODES.contains(&(row.provider, answer)) {
                continue;
            }
            let found = match row.provider {
                Provider::Smtp => of_smtp(answer),
                Provider::Apns => of_mobile_push(apns::answers::TABLE, answer),
                Provider::Fcm => match answer.strip_prefix("oauth ") {
                    Some(status) => of_mobile_push(fcm::answers::OAUTH_TABLE, status),
                    None => of_mobile_push(fcm::answers::TABLE, answer),
                },
                Provider::WebPush => of_web_push(answer),
                Provider::Twilio => of_twilio(answer),
            };
            let found = found.unwrap_or_else(|| {
                panic!("{answer} of {:?} is not in the table of its channel", row.provider)
            });
            assert_eq!(found.0, row.class, "{answer} of {:?}", row.provider);
            // The tables of the channels have only notes that depend on the code, not those that depend on the body or headers of
            // the answer.
            if let Note::NotBefore(_) | Note::Limit(_) | Note::HereOnly = row.note {
                assert_eq!(found.1, row.note, "{answer} of {:?}", row.provider);
            }
        }
    }
}

#[test]
fn notes_checked_elsewhere_name_existing_tests() {
    for (what, test, source) in ELSEWHERE {
        assert!(source.contains(&format!("fn {test}()")), "{what}: the test {test} does not exist");
    }
}

type Found = Option<(Class, Note)>;

fn of_smtp(answer: &str) -> Found {
    use smtp::SmtpVerdict;
    let (_, verdict) = smtp::TABLE.iter().find(|(pattern, _)| *pattern == answer)?;
    Some(match *verdict {
        SmtpVerdict::Retry => (Class::Retry, Note::None),
        SmtpVerdict::RetryAfter(wait) => (Class::Retry, Note::NotBefore(wait)),
        SmtpVerdict::RetryWithin(limit) => (Class::Retry, Note::Limit(limit)),
        SmtpVerdict::Failed | SmtpVerdict::Blocked => (Class::Failed, Note::None),
        SmtpVerdict::TargetGone => (Class::Gone, Note::None),
        SmtpVerdict::PauseProvider => (Class::Pause, Note::None),
    })
}

fn of_mobile_push(table: &'static [(&'static str, Verdict)], answer: &str) -> Found {
    let (status, name) = answer.split_once(' ').unwrap_or((answer, ""));
    let (_, verdict) = worker::verdict::row(table, status.parse().ok()?, name)?;
    Some(of_verdict(*verdict))
}

fn of_verdict(verdict: Verdict) -> (Class, Note) {
    match verdict {
        Verdict::Sent => (Class::Sent, Note::None),
        Verdict::Retry => (Class::Retry, Note::None),
        Verdict::RetryAfter(wait) => (Class::Retry, Note::NotBefore(wait)),
        Verdict::RetryWithin(limit) => (Class::Retry, Note::Limit(limit)),
        Verdict::Failed => (Class::Failed, Note::None),
        Verdict::TargetGone => (Class::Gone, Note::None),
        Verdict::TargetGoneHere => (Class::Gone, Note::HereOnly),
        Verdict::PauseProvider => (Class::Pause, Note::None),
        Verdict::Unknown => (Class::Unknown, Note::None),
    }
}

fn of_web_push(answer: &str) -> Found {
    let (_, verdict) = web_push::answers::TABLE.iter().find(|(pattern, _)| *pattern == answer)?;
    Some(of_verdict(*verdict))
}

fn of_twilio(answer: &str) -> Found {
    let by_status = || sms::answers::FAMILIES.iter().find(|(pattern, _)| *pattern == answer);
    let known = answer.parse().ok().and_then(twilio::outcome);
    Some(match known.or_else(|| by_status().map(|(_, outcome)| outcome.clone()))? {
        Outcome::Sent { .. } => (Class::Sent, Note::None),
        Outcome::Retry { limit: Some(limit), .. } => (Class::Retry, Note::Limit(limit)),
        Outcome::Retry { .. } => (Class::Retry, Note::None),
        Outcome::Failed => (Class::Failed, Note::None),
        Outcome::TargetGone(_) => (Class::Gone, Note::None),
        Outcome::PauseProvider => (Class::Pause, Note::None),
        Outcome::Unknown | Outcome::Repeat { .. } => (Class::Unknown, Note::None),
    })
}
