//! The gateway and the workers judge the options of a send by the same rules.

use domain::content::EmailContent;
use domain::request::{SendRules, parse_send};
use domain::{Channel, Reason, provider_override};
use serde_json::{Value, json};
use testkit::override_options::{of_channel, of_email_provider};

use crate::fixture::{Mailer, NOW, TO, attempt_job, job, text};

/// The content that the gateway would accept; None if it refuses the send.
fn accepted(option: &str, value: &Value) -> Option<EmailContent> {
    let send = json!({
        "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]},
        "override": {"channel": {"email": {option: value}}},
    });
    let parsed = parse_send(send, SendRules { now: NOW, strict: false }).ok()?;
    let own = *parsed.send.overrides.email.unwrap_or_default();
    let usual = text("hello");
    Some(EmailContent {
        subject: own.subject.unwrap_or(usual.subject),
        text: own.text.or(usual.text),
        html: own.html,
        options: own.options,
        ..EmailContent::default()
    })
}

#[tokio::test]
async fn no_option_that_the_gateway_accepts_is_refused_without_asking_the_mail_server() {
    let mailer = Mailer::start().await;
    for (option, good, bad) in of_channel(Channel::Email) {
        for value in &bad {
            assert!(accepted(option, value).is_none(), "{option}: {value}");
        }
        for value in &good {
            let content = accepted(option, value).unwrap_or_else(|| panic!("{option}: {value}"));
            let answer = mailer.send_content(TO, content).await;
            assert_eq!(answer.refusal, None, "{option}: {value}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn no_sender_for_one_provider_that_the_gateway_accepts_is_refused_without_asking_the_mail_server() {
    let mailer = Mailer::start().await;
    for (option, good, bad) in of_email_provider() {
        let send = |value: &Value| {
            json!({
                "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]},
                "override": {"main": {"_config": {option: value}}},
            })
        };
        let rules = SendRules { now: NOW, strict: false };
        for value in &bad {
            let mut problems =
                parse_send(send(value), rules).map_or_else(|refused| refused.problems, |_| Vec::new());
            // The gateway knows that this provider sends email.
            let members = json!({"_config": {option: value}});
            provider_override::check(
                Channel::Email,
                "smtp",
                "override.main",
                members.as_object().unwrap(),
                &mut problems,
            );
            let path = format!("override.main._config.{option}");
            assert!(problems.iter().any(|problem| problem.field == path), "{option}: {value}: {problems:?}");
        }
        for value in &good {
            let parsed = parse_send(send(value), rules).unwrap_or_else(|refused| panic!("{refused:?}"));
            let mut job = job(TO, text("hello"));
            job.overrides = parsed.send.overrides.providers;
            let answer = attempt_job(&mailer.sender, &mailer.provider, &job).await;
            assert_eq!(answer.refusal, None, "{option}: {value}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn every_local_part_of_the_standard_is_sent_to() {
    let mailer = Mailer::start().await;
    for to in [
        "संपर्क@example.org",
        "தமிழ்@example.org",
        "ගිණුම්@example.org",
        "jose\u{301}@example.org",
        "😀@example.org",
        "\"a b\"@example.org",
    ] {
        let answer = mailer.send(to).await;
        assert_eq!(answer.refusal, None, "{to}: {answer:?}");
        if let Some(capture) = mailer.captures().first() {
            assert_eq!(capture.to, [to], "{answer:?}");
        }
    }
}

#[tokio::test]
async fn what_tidings_refuses_itself_is_not_said_to_be_the_provider() {
    let mailer = Mailer::start().await;
    for (to, reason) in [("ada", Reason::InvalidAddress), ("a@[127.0.0.1]", Reason::InvalidAddress)] {
        assert_eq!(mailer.send(to).await.refusal, Some(reason), "{to}");
    }
    let mut content = text("hello");
    content.options.from = Some("shop@other.example".to_owned());
    assert_eq!(mailer.send_content(TO, content).await.refusal, Some(Reason::SenderNotAllowed));
    assert_eq!(mailer.server.connections(), 0);
}
