//! What Twilio posts, as far as it is read.

use utoipa::ToSchema;

/// A status callback of Twilio.
#[derive(ToSchema)]
#[schema(example = json!({"MessageSid": "SM0123456789abcdef0123456789abcdef", "MessageStatus": "undelivered",
    "ErrorCode": "30003"}))]
#[allow(dead_code, non_snake_case, reason = "for the schema alone, in Twilio's spelling")]
pub(crate) struct TwilioStatus {
    /// `delivered`, `read`, `undelivered` and `failed` are final; others change nothing.
    MessageStatus: Option<String>,
    /// Why, where it was not delivered.
    ErrorCode: Option<String>,
    /// Twilio's id of the message.
    MessageSid: Option<String>,
}

/// A message that somebody sent to one of the account's numbers.
#[derive(ToSchema)]
#[schema(example = json!({"From": "+4915112345678", "Body": "STOP", "OptOutType": "STOP"}))]
#[allow(dead_code, non_snake_case, reason = "for the schema alone, in Twilio's spelling")]
pub(crate) struct TwilioMessage {
    /// Who sent it.
    From: Option<String>,
    /// Its text.
    Body: Option<String>,
    /// `STOP`, `START` or `HELP`, where the account has Twilio look for them.
    OptOutType: Option<String>,
}
