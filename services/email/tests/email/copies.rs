use domain::Outcome;
use domain::content::{EmailContent, EmailOptions};
use stand_ins::smtp::{Rule, SmtpSettings, Stage};

use crate::fixture::{Mailer, TO, assert_sent, limits, text};

fn with_copies() -> EmailContent {
    let options = EmailOptions {
        cc: vec!["cc@example.org".to_owned(), "5.1.1@example.org".to_owned()],
        bcc: vec!["bcc@example.org".to_owned()],
        ..EmailOptions::default()
    };
    EmailContent { options, ..text("hello") }
}

#[tokio::test]
async fn cc_is_visible_bcc_is_not_and_a_refused_copy_does_not_stop_the_message() {
    let mailer = Mailer::start().await;
    let answer = mailer.send_content(TO, with_copies()).await;
    assert_sent(&answer);
    assert_eq!(answer.message, "2.0.0 kept; 1 of 3 further recipients refused: 550 5.1.1");
    let captures = mailer.captures();
    assert_eq!(captures[0].to, [TO, "cc@example.org", "bcc@example.org"]);
    let raw = String::from_utf8(captures[0].raw.clone()).unwrap();
    assert!(raw.contains("\r\nCc: cc@example.org, 5.1.1@example.org\r\n"), "{raw}");
    assert!(!raw.contains("bcc@"), "{raw}");
    // The next email on the same connection has no cc or bcc, so its answer mentions no refused recipients.
    assert_eq!(mailer.send(TO).await.message, "2.0.0 kept");
    assert_eq!(mailer.server.connections(), 1);
}

#[tokio::test]
async fn copies_are_sent_only_if_the_recipient_is_accepted() {
    for pipelining in [true, false] {
        let mailer = Mailer::with(SmtpSettings { pipelining, ..SmtpSettings::default() }, limits()).await;
        let answer = mailer.send_content("5.1.1@example.com", with_copies()).await;
        assert_eq!(answer.outcome, Outcome::GONE);
        assert!(mailer.captures().is_empty());
        mailer.server.script(Rule::answer(Stage::Rcpt, "421 4.3.2 going down").to("cc@example.org"));
        let answer = mailer.send_content(TO, with_copies()).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::RETRY, "421 4.3.2"));
        assert!(mailer.captures().is_empty());
        assert_sent(&mailer.send_content(TO, with_copies()).await);
    }
}

#[tokio::test]
async fn a_copy_to_an_invalid_address_is_refused_before_a_server_is_called() {
    for wrong in ["nobody", "a@example.com\r\nRCPT TO:<b@example.com>", "<a@example.com>"] {
        let mailer = Mailer::start().await;
        let options = EmailOptions { bcc: vec![wrong.to_owned()], ..EmailOptions::default() };
        let answer = mailer.send_content(TO, EmailContent { options, ..text("hello") }).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "content"));
        assert_eq!(mailer.server.connections(), 0);
    }
}
