//! Tests of the checks: a valid record passes all of them, and each falsified record fails the check for its defect.

use std::collections::BTreeSet;

use domain::Timestamp;
use stand_ins::faults::{Call, Fault};

use crate::check;
use crate::providers::TIMEOUT;
use crate::record::{
    AcceptedMessage, Attempt, Codes, Delivery, ProviderView, Record, ReportedOutcome, Request, Suppression,
};

const CODES: Codes =
    Codes { temporary: "450", busy: "452", gone: "550", lost: &["connection_lost"], down: &["421"] };

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn attempt(number: i32, outcome: &str, code: &str) -> Attempt {
    let started_at = at(i64::from(number) * 10);
    Attempt {
        number,
        provider: Some("smtp".to_owned()),
        outcome: outcome.to_owned(),
        code: code.to_owned(),
        started_at,
        ended_at: at(i64::from(number) * 10 + 5),
    }
}

fn delivery(channel: &str, target: &str, attempts: Vec<Attempt>, end: (&str, Option<&str>)) -> Delivery {
    let attempt = i32::try_from(attempts.len()).unwrap().max(1);
    let (status, reason) = (end.0.to_owned(), end.1.map(str::to_owned));
    let mut reported: Vec<ReportedOutcome> = (1..attempt)
        .map(|attempt| ReportedOutcome { attempt, status: "retrying".to_owned(), reason: None })
        .collect();
    reported.push(ReportedOutcome { attempt, status: status.clone(), reason: reason.clone() });
    Delivery {
        target: (channel.to_owned(), target.to_owned()),
        notice: "notice".to_owned(),
        claimed_at: attempts.iter().map(|attempt| attempt.started_at).collect(),
        status,
        reason,
        attempt,
        attempts,
        reported,
    }
}

fn call(millis: i64, target: &str, fault: Option<Fault>) -> Call {
    Call { at: at(millis), target: target.to_owned(), fault }
}

fn taken(target: &str, delivery: &str) -> AcceptedMessage {
    AcceptedMessage {
        target: target.to_owned(),
        notice: "notice".to_owned(),
        delivery: Some(delivery.to_owned()),
    }
}

/// Builds a record without violations. Three emails: one sent by the second attempt, one accepted twice because the first answer
/// was cut off, and one to a dead address. Two SMS: one of them was sent again after an unknown outcome, to a provider that
/// de-duplicates calls.
fn valid() -> Record {
    let mut record = Record::default();
    let retried = vec![attempt(1, "retry", "450"), attempt(2, "sent", "250")];
    let repeated = vec![attempt(1, "unknown", "connection_lost"), attempt(2, "sent", "250")];
    let dead = vec![attempt(1, "target_gone", "550")];
    let mut short = attempt(1, "sent", "200");
    short.provider = Some("twilio".to_owned());
    let mut asked_again = [attempt(1, "unknown", "connection_lost"), attempt(2, "sent", "200")];
    for attempt in &mut asked_again {
        attempt.provider = Some("keyed".to_owned());
    }
    for (id, delivery) in [
        ("a", delivery("email", "ada", retried, ("sent", None))),
        ("b", delivery("email", "bob", repeated, ("sent", None))),
        ("c", delivery("email", "cyd", dead, ("failed", Some("target_gone")))),
        ("d", delivery("sms", "+1", vec![short], ("sent", None))),
        ("e", delivery("sms", "+2", asked_again.into(), ("sent", None))),
    ] {
        record.deliveries.insert(id.to_owned(), delivery);
    }
    let smtp = ProviderView {
        channel: "email".to_owned(),
        codes: CODES,
        calls: vec![
            call(12, "ada", Some(Fault::Temporary)),
            call(22, "ada", None),
            call(12, "bob", Some(Fault::CutAfter)),
            call(22, "bob", None),
            call(12, "cyd", Some(Fault::Gone)),
        ],
        taken: vec![taken("ada", "a"), taken("bob", "b"), taken("bob", "b")],
        ..ProviderView::default()
    };
    let twilio = ProviderView {
        channel: "sms".to_owned(),
        codes: CODES,
        calls: vec![call(12, "+1", None)],
        taken: vec![taken("+1", "d")],
        ..ProviderView::default()
    };
    let keyed = ProviderView {
        calls: vec![call(12, "+2", Some(Fault::CutAfter)), call(22, "+2", None)],
        taken: vec![taken("+2", "e")],
        keyed: true,
        ..twilio.clone()
    };
    let providers = [("smtp", smtp), ("twilio", twilio), ("keyed", keyed)];
    record.providers = providers.map(|(name, seen)| (name.to_owned(), seen)).into();
    let cyd = ("email".to_owned(), "cyd".to_owned());
    record.suppressions.insert(cyd, Suppression { committed_by: Some(at(16)) });
    let counts = [("email", vec![("sent", 2), ("failed", 1)]), ("sms", vec![("sent", 2), ("skipped", 1)])];
    let named = |(name, number): (&str, i64)| (name.to_owned(), number);
    record.requests.push(Request {
        notice: "notice".to_owned(),
        recipients: 3,
        counts: counts.map(|(channel, of)| (channel.to_owned(), of.into_iter().map(named).collect())).into(),
        skips: [(("sms".to_owned(), "no_address".to_owned()), 1)].into(),
    });
    record
}

type Falsify = fn(&mut Record);

/// Changes to the valid record, each with the name of the check that must find it.
const FALSIFIED: &[(&str, Falsify)] = &[
    ("every delivery has a final status", |record| of(record, "a").status = "retrying".to_owned()),
    ("every final status follows from the attempts", |record| of(record, "c").reason = None),
    ("every final status follows from the attempts", |record| of(record, "a").status = "parked".to_owned()),
    ("every final status follows from the attempts", |record| {
        of(record, "d").attempts[0].outcome = "unknown".to_owned();
    }),
    ("every final status follows from the attempts", |record| seen(record, "keyed").keyed = false),
    ("failover only after a definite failure", |record| {
        of(record, "e").attempts[1].provider = Some("twilio".to_owned());
        let call = seen(record, "keyed").calls.pop().unwrap();
        seen(record, "twilio").calls.push(call);
    }),
    ("every final status follows from the attempts", |record| of(record, "a").attempts[0].number = 7),
    ("every attempt matches the provider's answers", |record| {
        seen(record, "smtp").calls.push(call(13, "ada", None));
    }),
    ("every attempt matches the provider's answers", |record| {
        seen(record, "smtp").calls.retain(|call| call.target != "ada");
    }),
    ("every attempt matches the provider's answers", |record| {
        of(record, "a").attempts[0].outcome = "failed".to_owned();
    }),
    ("every attempt matches the provider's answers", |record| {
        seen(record, "smtp").calls[2].at = at(99);
    }),
    ("every attempt matches the provider's answers", |record| {
        seen(record, "smtp").codes.lost = &[TIMEOUT];
        seen(record, "smtp").calls[2].at = at(5_000);
        let lost = &mut of(record, "b").attempts[0];
        lost.code = TIMEOUT.to_owned();
        lost.ended_at = at(15_000);
    }),
    ("no claim after a suppression", |record| of(record, "c").claimed_at.push(at(17))),
    ("no claim after a suppression", |record| {
        record.suppressions.values_mut().next().unwrap().committed_by = None;
    }),
    ("exactly the dead targets are suppressed", |record| record.suppressions.clear()),
    ("exactly the dead targets are suppressed", |record| {
        let ada = ("email".to_owned(), "ada".to_owned());
        record.suppressions.insert(ada, Suppression { committed_by: Some(at(99)) });
    }),
    ("nothing is accepted twice without a fault", |record| {
        seen(record, "smtp").taken.push(taken("ada", "a"));
    }),
    ("nothing is accepted twice without a fault", |record| {
        seen(record, "smtp").taken.push(taken("bob", "b"));
    }),
    ("no SMS is accepted twice", |record| seen(record, "twilio").taken.push(taken("+1", "d"))),
    ("the ledger agrees with what providers accepted", |record| seen(record, "twilio").taken.clear()),
    ("the ledger agrees with what providers accepted", |record| {
        seen(record, "smtp").taken.push(taken("eve", "e"));
    }),
    ("the ledger agrees with what providers accepted", |record| {
        seen(record, "smtp").taken[0].delivery = Some("x".to_owned());
    }),
    ("failover only after a definite failure", |record| {
        of(record, "b").attempts[1].provider = Some("other".to_owned());
    }),
    ("the log agrees with the ledger", |record| of(record, "a").reported.clear()),
    ("the log agrees with the ledger", |record| of(record, "c").reported[0].status = "sent".to_owned()),
    ("the counts of requests add up", |record| {
        record.requests[0].counts.get_mut("email").unwrap().insert("sent".to_owned(), 3);
    }),
    ("the counts of requests add up", |record| record.requests[0].recipients = 4),
];

fn of<'a>(record: &'a mut Record, id: &str) -> &'a mut Delivery {
    record.deliveries.get_mut(id).unwrap()
}

fn seen<'a>(record: &'a mut Record, name: &str) -> &'a mut ProviderView {
    record.providers.get_mut(name).unwrap()
}

#[test]
fn a_valid_record_passes() {
    check::pass(&valid());
}

#[test]
fn an_answer_that_is_lost_with_a_shared_connection_suppresses_nothing() {
    let mut record = valid();
    for (id, target) in [("f", "+3"), ("g", "+4")] {
        let mut lost = attempt(1, "unknown", "connection_lost");
        lost.provider = Some("twilio".to_owned());
        let unknown = delivery("sms", target, vec![lost], ("unknown", Some("outcome_unknown")));
        record.deliveries.insert(id.to_owned(), unknown);
    }
    record.requests[0].counts.get_mut("sms").unwrap().insert("unknown".to_owned(), 2);
    let twilio = seen(&mut record, "twilio");
    twilio.multiplexed = true;
    twilio.calls.extend([call(12, "+3", Some(Fault::Gone)), call(13, "+4", Some(Fault::CutBefore))]);
    check::pass(&record);

    let attempt = &mut of(&mut record, "f").attempts[0];
    (attempt.outcome, attempt.code) = ("target_gone".to_owned(), CODES.gone.to_owned());
    let failures = check::failures(&record);
    assert!(failures.iter().any(|(failed, _)| *failed == "exactly the dead targets are suppressed"));
}

#[test]
fn an_outcome_may_be_reported_twice() {
    let mut record = valid();
    let reported = &mut of(&mut record, "a").reported;
    reported.extend(reported.clone());
    check::pass(&record);
}

#[test]
fn every_falsified_record_fails_its_check() {
    for (name, falsify) in FALSIFIED {
        let mut record = valid();
        falsify(&mut record);
        let failures = check::failures(&record);
        assert!(
            failures.iter().any(|(failed, _)| failed == name),
            "{name} passed; failed checks: {failures:?}"
        );
    }
    let falsified: BTreeSet<&str> = FALSIFIED.iter().map(|(name, _)| *name).collect();
    let checks: BTreeSet<&str> = check::CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(falsified, checks);
}
