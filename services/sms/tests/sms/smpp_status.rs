use domain::Outcome;
use domain::content::SmsContent;
use sms::smpp::status::{TABLE, is_about_sender, name, outcome_of_bind};
use stand_ins::smsc::{Reaction, Rule, Stage};

use crate::fixture::{LIMIT, TO, assert_answer, assert_sent, captures, smsc};

const Z: Outcome = Outcome::PauseProvider;
const R: Outcome = Outcome::RETRY;
const D: Outcome = Outcome::GONE;
const P: Outcome = Outcome::Failed;

/// Statuses with their outcomes: every row of [`TABLE`], and further statuses.
const CASES: &[(u32, Outcome)] = &[
    (0x01, P),
    (0x02, P),
    (0x03, P),
    (0x04, R),
    (0x05, R),
    (0x06, P),
    (0x07, P),
    (0x08, R),
    (0x0a, Z),
    (0x0b, D),
    (0x0c, P),
    (0x0d, Z),
    (0x0e, Z),
    (0x0f, Z),
    (0x11, P),
    (0x13, P),
    (0x14, R),
    (0x15, Z),
    (0x33, P),
    (0x34, P),
    (0x40, P),
    (0x42, P),
    (0x43, P),
    (0x44, P),
    (0x45, R),
    (0x48, Z),
    (0x49, Z),
    (0x50, P),
    (0x51, P),
    (0x53, Z),
    (0x54, P),
    (0x55, P),
    (0x58, R),
    (0x61, P),
    (0x62, P),
    (0x63, P),
    (0x64, R),
    (0x65, P),
    (0x66, P),
    (0x67, P),
    (0xc0, P),
    (0xc1, P),
    (0xc2, P),
    (0xc3, P),
    (0xc4, P),
    (0xfe, P),
    (0xff, R),
    // Vendor-specific statuses.
    (0x400, R),
    (0x4ff, R),
];

#[tokio::test]
async fn every_status_of_the_table_has_its_outcome() {
    let (server, line) = smsc().await;
    assert_sent(&line.send(TO, "Hello").await);
    for (status, outcome) in CASES {
        let mut binds = server.binds();
        for reaction in [Reaction::Status(*status), Reaction::Nack(*status)] {
            server.script(Rule::new(Stage::Submit, reaction));
            let answer = line.send(TO, "Hello").await;
            assert_answer(&answer, outcome, &name(*status));
            assert_eq!(answer.segments, None);
            if *status == 0x04 {
                // The message centre has reported that the session is not bound, so a new one is bound.
                binds += 1;
                let bound = async || (server.binds() == binds && server.bound() == 1).then_some(());
                testkit::eventually(LIMIT, "the session is bound again", bound).await;
            }
        }
    }
    for (status, ..) in TABLE {
        assert!(CASES.iter().any(|case| case.0 == *status), "no case for {status:#x}");
    }
    assert_eq!(captures(server.outbox()).len(), 1);
    assert_sent(&line.send(TO, "Hello").await);
    assert_eq!(server.binds(), 3, "only ESME_RINVBNDSTS ends a session");
}

#[tokio::test]
async fn a_refused_sender_chosen_by_the_send_does_not_count_against_the_provider() {
    let (server, line) = smsc().await;
    for (status, outcome) in CASES.iter().filter(|(status, _)| *status != 0x04) {
        server.script(Rule::status(*status));
        let content = SmsContent { text: "Hello".to_owned(), from: Some("Other".to_owned()) };
        let expected = if is_about_sender(&name(*status)) { &P } else { outcome };
        assert_answer(&line.send_content(TO, content).await, expected, &name(*status));
    }
}

#[tokio::test]
async fn a_refused_bind_is_an_account_problem_unless_temporary() {
    for (status, _) in CASES {
        let (server, line) = smsc().await;
        server.script(Rule::new(Stage::Bind, Reaction::Status(*status)).times(100));
        let expected = if matches!(outcome_of_bind(*status), Outcome::Retry { .. }) { R } else { Z };
        assert_answer(&line.send(TO, "Hello").await, &expected, &name(*status));
        assert!(captures(server.outbox()).is_empty());
    }
    assert_eq!(outcome_of_bind(0x0e), Z);
    assert_eq!(outcome_of_bind(0x08), R);
    assert_eq!(outcome_of_bind(0x0b), Z);
}

#[tokio::test]
async fn numbers_unknown_to_the_network_are_dead() {
    let (_server, line) = smsc().await;
    assert_answer(&line.send("+15005550001", "Hello").await, &D, "ESME_RINVDSTADR");
}
