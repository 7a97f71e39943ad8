use domain::content::SmsContent;
use domain::{Outcome, Reason};

use crate::fixture::{TO, assert_answer, assert_sent, http, only, smsc, twilio};

/// Texts with their numbers of segments.
fn texts() -> Vec<(String, u32)> {
    vec![
        ("Hello".to_owned(), 1),
        ("Grüße, 5 € {[~]} \\ ^ | @ £ _ \n Ω".to_owned(), 1),
        ("a".repeat(160), 1),
        ("a".repeat(161), 2),
        (format!("{}€{}", "a".repeat(152), "b".repeat(160)), 3),
        ("Привет 😀".to_owned(), 1),
        ("😀".repeat(36), 2),
        (format!("{}😀{}", "Ж".repeat(66), "x".repeat(80)), 3),
    ]
}

#[tokio::test]
async fn texts_arrive_complete_with_their_segments_counted_for_every_kind() {
    for (text, segments) in texts() {
        let (twilio, line) = twilio().await;
        let answer = line.send(TO, &text).await;
        assert_eq!(answer.segments, Some(segments), "{text}");
        assert_eq!(only(twilio.outbox()), ("+15005550006".to_owned(), TO.to_owned(), text.clone()));

        let (provider, line) = http().await;
        let answer = line.send(TO, &text).await;
        assert_eq!(answer.segments, Some(segments), "{text}");
        assert_eq!(only(provider.outbox()), ("Shop".to_owned(), TO.to_owned(), text.clone()));

        let (centre, line) = smsc().await;
        let answer = line.send(TO, &text).await;
        assert_eq!(answer.segments, Some(segments), "{text}: {answer:?}");
        assert_eq!(only(centre.outbox()), ("+15005550006".to_owned(), TO.to_owned(), text.clone()));
        assert_eq!(centre.submissions(), usize::try_from(segments).unwrap());
    }
}

#[tokio::test]
async fn a_malformed_number_of_an_old_job_ends_as_invalid_address_without_a_call() {
    let (server, line) = twilio().await;
    for to in [
        "015112345678",
        "+0151123456",
        "4915112345678",
        "+49 151",
        "",
        "+1234567890123456",
        "+49151\r\n12345",
    ] {
        let answer = line.send(to, "Hello").await;
        assert_answer(&answer, &Outcome::Failed, "invalid_number");
        assert_eq!(answer.refusal, Some(Reason::InvalidAddress), "{to}");
    }
    assert_answer(&line.send(TO, " \n").await, &Outcome::Failed, "empty");
    for from in ["", "a\r\nb", "much too long a name", "+12", "Ж"] {
        let content = SmsContent { text: "Hello".to_owned(), from: Some(from.to_owned()) };
        assert_answer(&line.send_content(TO, content).await, &Outcome::Failed, "invalid_sender");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_send_can_override_the_sender() {
    for from in ["Shop", "+15005550006"] {
        let content = SmsContent { text: "Hello".to_owned(), from: Some(from.to_owned()) };
        let (server, line) = twilio().await;
        assert_sent(&line.send_content(TO, content.clone()).await);
        assert_eq!(only(server.outbox()).0, from);
        let (server, line) = http().await;
        assert_sent(&line.send_content(TO, content.clone()).await);
        assert_eq!(only(server.outbox()).0, from);
        let (server, line) = smsc().await;
        assert_sent(&line.send_content(TO, content).await);
        assert_eq!(only(server.outbox()).0, from);
    }
}
