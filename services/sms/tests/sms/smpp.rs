use std::time::Duration;

use domain::Outcome;
use domain::content::SmsContent;
use domain::event::DeliveryJob;
use serde_json::json;
use stand_ins::smsc::{Reaction, Rule, SmscSettings, Stage};
use testkit::eventually;

use crate::fixture::{
    LIMIT, Line, NOW, TO, assert_answer, assert_sent, captures, job, limits, only, short, smpp_settings,
    smsc, smsc_with,
};

/// Returns a text that needs three parts.
fn long() -> String {
    "0123456789".repeat(40)
}

#[tokio::test]
async fn long_texts_are_sent_as_numbered_parts_or_as_a_payload() {
    let (server, _) = smsc().await;
    for (concatenation, submissions) in [("udh", 3), ("payload", 1)] {
        let before = server.submissions();
        let mut settings = smpp_settings(&server);
        settings["concatenation"] = json!(concatenation);
        let answer = Line::new("smpp", settings).send(TO, &long()).await;
        assert_eq!(answer.segments, Some(3));
        assert_eq!(only(server.outbox()).2, long());
        assert_eq!(server.submissions() - before, submissions, "{concatenation}");
        server.outbox().clear().unwrap();
    }
}

#[tokio::test]
async fn a_centre_with_another_alphabet_gets_ucs2() {
    let (server, _) = smsc().await;
    let mut settings = smpp_settings(&server);
    settings["alphabet"] = json!("ucs2");
    let answer = Line::new("smpp", settings).send(TO, &"a".repeat(71)).await;
    assert_eq!((answer.segments, server.submissions()), (Some(2), 2));
    assert_eq!(only(server.outbox()).2, "a".repeat(71));
}

#[tokio::test]
async fn a_message_has_a_validity_and_at_most_255_parts() {
    let (server, line) = smsc().await;
    let hello = SmsContent { text: "Hello".to_owned(), from: None };
    let expires_at = Some(NOW + Duration::from_secs(600));
    assert_sent(&line.send_job(&DeliveryJob { expires_at, ..job(TO, hello) }).await);
    assert_sent(&line.send(TO, &"a".repeat(153 * 255)).await);
    assert_eq!(server.submissions(), 256);
    assert_answer(&line.send(TO, &"a".repeat(153 * 255 + 1)).await, &Outcome::Failed, "too_long");
    assert_eq!(server.submissions(), 256);
}

#[tokio::test]
async fn a_connection_that_ends_after_the_submission_leaves_it_unknown() {
    for (reaction, taken) in [(Reaction::CutBefore, 0), (Reaction::CutAfter, 1)] {
        let (server, line) = smsc().await;
        server.script(Rule::new(Stage::Submit, reaction));
        let answer = line.send(TO, "Hello").await;
        assert_answer(&answer, &Outcome::Unknown, "connection_lost");
        assert_eq!((captures(server.outbox()).len(), answer.segments), (taken, Some(1)));
        assert_sent(&line.send(TO, "Hello again").await);
        assert_eq!(server.binds(), 2);
    }
    let limits = sms::Limits { response: Duration::from_secs(1), ..limits() };
    let (server, line) = smsc_with(SmscSettings::default(), limits).await;
    server.script(Rule::new(Stage::Submit, Reaction::Stall));
    assert_answer(&line.send(TO, "Hello").await, &Outcome::Unknown, "timeout");
    assert_sent(&line.send(TO, "Hello again").await);
    assert_eq!(server.binds(), 1, "the session stays bound");
}

#[tokio::test]
async fn no_part_is_sent_after_the_first_part_was_refused() {
    let (server, line) = smsc().await;
    server.script(Rule::status(0x58).part(1));
    assert_answer(&line.send(TO, &long()).await, &Outcome::RETRY, "ESME_RTHROTTLED");
    assert_eq!(server.submissions(), 1, "the second part is not sent");
    assert_sent(&line.send(TO, &long()).await);
    assert_eq!(only(server.outbox()).2, long());
}

#[tokio::test]
async fn a_later_part_is_retried_alone() {
    let (server, line) = smsc().await;
    server.script(Rule::status(0x58).part(2));
    server.script(Rule::status(0x14).part(3));
    assert_sent(&line.send(TO, &long()).await);
    assert_eq!((only(server.outbox()).2, server.submissions()), (long(), 5));
}

#[tokio::test]
async fn a_message_fails_if_a_later_part_is_permanently_refused() {
    for (status, code) in [(0x0b, "ESME_RINVDSTADR"), (0x01, "ESME_RINVMSGLEN"), (0x0a, "ESME_RINVSRCADR")] {
        let (server, line) = smsc().await;
        server.script(Rule::status(status).part(2));
        let answer = line.send(TO, &long()).await;
        assert_answer(&answer, &Outcome::Failed, code);
        assert!(answer.message.starts_with("part 2 of 3, after 1 were accepted"), "{answer:?}");
        assert_eq!((server.submissions(), captures(server.outbox()).len()), (2, 0));
    }
    let settings = SmscSettings { receipts: false, ..SmscSettings::default() };
    let (server, line) = smsc_with(settings, short()).await;
    // The short limit is for the refused part, so the session must be bound before.
    eventually(LIMIT, "the session is bound", async || {
        matches!(line.send(TO, "Hello").await.outcome, Outcome::Sent { .. }).then_some(())
    })
    .await;
    server.outbox().clear().unwrap();
    server.script(Rule::status(0x58).part(2).times(100));
    assert_answer(&line.send(TO, &long()).await, &Outcome::Failed, "ESME_RTHROTTLED");
    assert!(captures(server.outbox()).is_empty());
}

#[tokio::test]
async fn a_message_is_unknown_if_a_later_part_is_unknown() {
    let (server, line) = smsc().await;
    server.script(Rule::new(Stage::Submit, Reaction::CutAfter).part(2));
    assert_answer(&line.send(TO, &long()).await, &Outcome::Unknown, "connection_lost");
    assert_eq!(server.submissions(), 2);
}
