//! The gateway and the workers judge the options of a send by the same rules.

use domain::content::SmsContent;
use domain::request::{SendRules, parse_send};
use domain::{Channel, Reason, Timestamp};
use serde_json::{Value, json};
use testkit::override_options::of_channel;

use crate::fixture::{TO, http, smsc, twilio};

const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

/// The content that the gateway would accept; None if it refuses the send.
fn accepted(option: &str, value: &Value) -> Option<SmsContent> {
    let send = json!({
        "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]},
        "override": {"channel": {"sms": {option: value}}},
    });
    let parsed = parse_send(send, SendRules { now: NOW, strict: false }).ok()?;
    let own = parsed.send.overrides.sms.unwrap_or_default();
    Some(SmsContent { text: own.text.unwrap_or_else(|| "Hello".to_owned()), from: own.from })
}

#[tokio::test]
async fn no_option_that_the_gateway_accepts_is_refused_without_asking_a_provider() {
    let (_twilio, by_twilio) = twilio().await;
    let (_http, by_http) = http().await;
    let (_smsc, by_smsc) = smsc().await;
    for (option, good, bad) in of_channel(Channel::Sms) {
        for value in &bad {
            assert!(
                accepted(option, value).is_none(),
                "{option}: {}",
                value.to_string().get(..40).unwrap_or_default()
            );
        }
        for value in &good {
            let content = accepted(option, value).unwrap_or_else(|| panic!("{option}: {value}"));
            for line in [&by_twilio, &by_http, &by_smsc] {
                let answer = line.send_content(TO, content.clone()).await;
                assert_eq!(answer.refusal, None, "{option}: {value}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_tidings_refuses_itself_is_not_said_to_be_the_provider() {
    let (server, line) = twilio().await;
    assert_eq!(line.send(TO, " ").await.refusal, Some(Reason::InvalidContent));
    let content = SmsContent { text: "Hello".to_owned(), from: Some("Ж".to_owned()) };
    assert_eq!(line.send_content(TO, content).await.refusal, Some(Reason::InvalidContent));
    assert_eq!(server.requests(), 0);
}
