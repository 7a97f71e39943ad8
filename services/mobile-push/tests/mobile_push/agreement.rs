//! The gateway and the workers judge the options of a send by the same rules.

use domain::Channel;
use domain::content::PushContent;
use domain::request::{SendRules, parse_send};
use serde_json::{Value, json};
use testkit::override_options::of_channel;

use crate::fixture::{ANDROID, NOW, PHONE, PushWorld, content};

/// The content that the gateway would accept; None if it refuses the send.
fn accepted(option: &str, value: &Value) -> Option<PushContent> {
    let send = json!({
        "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]},
        "override": {"channel": {"mobilePush": {option: value}}},
    });
    let parsed = parse_send(send, SendRules { now: NOW, strict: false }).ok()?;
    let own = parsed.send.overrides.mobile_push.unwrap_or_default();
    let usual = content();
    Some(PushContent {
        title: own.title.or(usual.title),
        body: own.body.or(usual.body),
        icon: own.icon,
        url: own.url.or(usual.url),
        data: own.data,
        options: own.options,
    })
}

#[tokio::test]
async fn no_option_that_the_gateway_accepts_is_refused_without_asking_a_push_service() {
    let (apple, google) = (PushWorld::apns().await, PushWorld::fcm().await);
    for (option, good, bad) in of_channel(Channel::MobilePush) {
        for value in &bad {
            assert!(
                accepted(option, value).is_none(),
                "{option}: {}",
                value.to_string().get(..80).unwrap_or_default()
            );
        }
        for value in &good {
            let content = accepted(option, value).unwrap_or_else(|| panic!("{option}: {value}"));
            for (answer, asked) in [
                (apple.send_job(&apple.job(PHONE, content.clone()), NOW).await, "APNs"),
                (google.send_job(&google.job(ANDROID, content), NOW).await, "FCM"),
            ] {
                assert_eq!(answer.refusal, None, "{asked}: {option}: {answer:?}");
            }
        }
    }
}
