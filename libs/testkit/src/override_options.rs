//! Values of every option of `override` in a send, for tests that compare the gateway, dry runs and workers.

mod email;
mod mobile_push;
mod sms;
mod web_push;

use domain::Channel;
use serde_json::{Value, json};

/// Name, values that each part must accept, and values that the gateway must refuse.
pub type OptionValues = (&'static str, Vec<Value>, Vec<Value>);

#[must_use]
pub fn of_channel(channel: Channel) -> Vec<OptionValues> {
    match channel {
        Channel::Email => email::values(),
        Channel::Sms => sms::values(),
        Channel::MobilePush => mobile_push::values(),
        Channel::WebPush => web_push::values(),
        _ => Vec::new(),
    }
}

/// Options of `_config`, for an email provider whose own sender is `news@example.com`.
#[must_use]
pub fn of_email_provider() -> Vec<OptionValues> {
    let bad = || ["te..st@example.com", "ada", "a@b\r\nBcc: c@d", ""].map(|text| json!(text)).to_vec();
    vec![
        (
            "from",
            vec![json!("other@EXAMPLE.com"), json!("दुकान@example.com")],
            [bad(), vec![json!(1), json!("Shop")]].concat(),
        ),
        (
            "fromName",
            vec![json!("Die Läden \"& Co\""), json!("x".repeat(255))],
            vec![json!("a\r\nb"), json!("x".repeat(256)), json!(1)],
        ),
        (
            "replyTo",
            vec![json!("ada@bücher.example"), json!("\"a b\"@example.org")],
            [bad(), vec![json!(1)]].concat(),
        ),
    ]
}
