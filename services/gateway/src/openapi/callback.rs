//! The fields of Twilio's callbacks that the gateway reads.

use utoipa::ToSchema;

/// A status callback of Twilio.
#[derive(ToSchema)]
#[schema(example = json!({"MessageSid": "SM0123456789abcdef0123456789abcdef", "MessageStatus": "undelivered",
    "ErrorCode": "30003"}))]
#[allow(dead_code, non_snake_case, reason = "for the schema alone, in Twilio's spelling")]
pub(crate) struct TwilioStatus {
    /// `delivered`, `read`, `undelivered` and `failed` are final; the service ignores every other status.
    MessageStatus: Option<String>,
    /// Twilio's error code, if the message was not delivered.
    ErrorCode: Option<String>,
    /// Twilio's id of the message.
    MessageSid: Option<String>,
}

/// A message that a person sent to one of the account's numbers.
#[derive(ToSchema)]
#[schema(example = json!({"From": "+4915112345678", "Body": "STOP", "OptOutType": "STOP"}))]
#[allow(dead_code, non_snake_case, reason = "for the schema alone, in Twilio's spelling")]
pub(crate) struct TwilioMessage {
    /// Phone number of the sender.
    From: Option<String>,
    /// Text of the message.
    Body: Option<String>,
    /// `STOP`, `START` or `HELP`, if the account lets Twilio detect opt-outs.
    OptOutType: Option<String>,
}
