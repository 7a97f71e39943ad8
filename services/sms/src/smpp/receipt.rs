//! SMPP delivery receipts (section 5.3.2 and appendix B).

use domain::{Answer, Outcome};
use rusmpp::pdus::DeliverSm;
use rusmpp::tlvs::TlvValue;

/// Bits of esm_class that contain the type of a deliver_sm.
const TYPE_MASK: u8 = 0x3c;
const RECEIPT: u8 = 0x04;
/// Maximum length of a message id in bytes.
const LONGEST_ID: usize = 64;

/// State of a message, as a receipt reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The message arrived.
    Delivered,
    /// The message is in transit, or its state is unknown.
    Pending,
    /// The message will not arrive.
    Lost,
}

/// Message states: value of message_state, name in the text of a receipt, and meaning. No state shows that a number is
/// dead. The error codes that receipts contain could show it, but each network defines its own.
pub const TABLE: &[(u8, &str, State)] = &[
    (0, "SCHEDULED", State::Pending),
    (1, "ENROUTE", State::Pending),
    (2, "DELIVRD", State::Delivered),
    (3, "EXPIRED", State::Lost),
    (4, "DELETED", State::Lost),
    (5, "UNDELIV", State::Lost),
    (6, "ACCEPTD", State::Pending),
    (7, "UNKNOWN", State::Pending),
    (8, "REJECTD", State::Lost),
    (9, "SKIPPED", State::Lost),
];

/// Receipt of a message centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryReceipt {
    /// Message centre's id of the message.
    pub message_id: String,
    /// Name of the state.
    pub state: &'static str,
    /// Error code of the network, if any.
    pub error: Option<String>,
    meaning: State,
}

impl DeliveryReceipt {
    /// Reads the receipt of a deliver_sm from its TLVs, or else from its text. Returns None if the message is not a
    /// receipt or cannot be parsed.
    #[must_use]
    pub fn of(message: &DeliverSm) -> Option<DeliveryReceipt> {
        if u8::from(message.esm_class) & TYPE_MASK != RECEIPT {
            return None;
        }
        let mut message_id = None;
        let mut state = None;
        let mut payload = None;
        for value in message.tlvs().iter().filter_map(|tlv| tlv.value()) {
            match value {
                TlvValue::ReceiptedMessageId(id) => message_id = Some(id.to_string()),
                TlvValue::MessageState(found) => state = Some(u8::from(*found)),
                TlvValue::MessagePayload(text) => payload = Some(text.value.as_ref().to_vec()),
                _ => {}
            }
        }
        let text = payload.unwrap_or_else(|| message.short_message().as_ref().to_vec());
        let text = String::from_utf8_lossy(&text);
        let row = match state {
            Some(state) => TABLE.iter().find(|(number, ..)| *number == state),
            None => {
                let word = field(&text, "stat:")?;
                TABLE.iter().find(|(_, name, _)| word.eq_ignore_ascii_case(name))
            }
        };
        let (_, name, meaning) = row?;
        let message_id = message_id.or_else(|| field(&text, "id:").map(str::to_owned))?;
        let error =
            field(&text, "err:").filter(|error| error.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let is_id = (1..=LONGEST_ID).contains(&message_id.len()) && !message_id.chars().any(char::is_control);
        is_id.then(|| DeliveryReceipt {
            message_id,
            state: name,
            error: error.map(str::to_owned),
            meaning: meaning.clone(),
        })
    }

    /// Answer for the delivery. None if the message is still in transit or its state is unknown.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        let outcome = match self.meaning {
            State::Pending => return None,
            State::Delivered => Outcome::Sent { provider_id: Some(self.message_id.clone()) },
            State::Lost => Outcome::Failed,
        };
        let message = self.error.as_ref().map(|error| format!("err:{error}")).unwrap_or_default();
        Some(Answer::new(outcome, self.state, message))
    }
}

/// Returns the value of a field such as `id:` in the text of a receipt. A field is a word that begins with the name, in
/// upper or lower case.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_ascii_whitespace().find_map(|word| {
        let (start, value) = word.split_at_checked(name.len())?;
        (start.eq_ignore_ascii_case(name) && !value.is_empty()).then_some(value)
    })
}
