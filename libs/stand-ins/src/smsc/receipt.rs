//! Delivery receipts of the message centre (SMPP 3.4, appendix B).

use rusmpp::pdus::DeliverSm;
use rusmpp::tlvs::MessageDeliveryRequestTlvValue;
use rusmpp::types::{COctetString, OctetString};
use rusmpp::values::{EsmClass, MessageState, Npi, Ton};

use super::Accepted;

const RECEIPT: u8 = 0x04;
const STATES: [&str; 10] = [
    "SCHEDULED",
    "ENROUTE",
    "DELIVRD",
    "EXPIRED",
    "DELETED",
    "UNDELIV",
    "ACCEPTD",
    "UNKNOWN",
    "REJECTD",
    "SKIPPED",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptForm {
    /// Only the text (appendix B).
    Text,
    /// Only the parameters receipted_message_id and message_state.
    Parameters,
    /// Both the text and the parameters.
    TextAndParameters,
}

/// Spelling of message ids in receipts. The ids in answers are 12 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptIds {
    Same,
    Upper,
    Zeros,
    /// The number in decimal notation, with a zero before it.
    Decimal,
    /// After a space, in the text.
    Spaced,
    /// An id that no answer contains.
    Foreign,
}

impl ReceiptIds {
    fn spell(self, id: &str) -> String {
        match self {
            ReceiptIds::Same => id.to_owned(),
            ReceiptIds::Upper => id.to_uppercase(),
            ReceiptIds::Zeros => format!("0000{id}"),
            ReceiptIds::Decimal => format!("0{}", u64::from_str_radix(id, 16).unwrap_or_default()),
            ReceiptIds::Spaced => format!(" {id}"),
            ReceiptIds::Foreign => format!("foreign-{id}"),
        }
    }
}

#[derive(Clone)]
pub(super) struct Receipt {
    message_id: String,
    message: Accepted,
    state: &'static str,
    error: &'static str,
}

impl Receipt {
    pub(super) fn new(
        message_id: &str,
        message: &Accepted,
        state: &'static str,
        error: &'static str,
    ) -> Receipt {
        Receipt { message_id: message_id.to_owned(), message: message.clone(), state, error }
    }

    /// Builds the deliver_sm of the receipt. Its source is the recipient of the message, and its destination is the
    /// sender of the message.
    pub(super) fn pdu(&self, form: ReceiptForm, ids: ReceiptIds) -> DeliverSm {
        let id = ids.spell(&self.message_id);
        let (from, to) = (&self.message.to, &self.message.from);
        let mut pdu = DeliverSm::builder()
            .source_addr_ton(Ton::International)
            .source_addr_npi(Npi::Isdn)
            .source_addr(address(from))
            .destination_addr(address(to))
            .esm_class(EsmClass::from(RECEIPT))
            .short_message(OctetString::default())
            .build();
        if form != ReceiptForm::Parameters {
            pdu.set_short_message(OctetString::from_vec(self.text(&id).into_bytes()).unwrap_or_default());
        }
        if form != ReceiptForm::Text {
            let id = COctetString::from_vec(format!("{}\0", id.trim()).into_bytes());
            pdu.push_tlv(MessageDeliveryRequestTlvValue::ReceiptedMessageId(id.unwrap_or_default()));
            let state = STATES.iter().position(|known| *known == self.state);
            let state = MessageState::from(u8::try_from(state.unwrap_or(7)).unwrap_or(7));
            pdu.push_tlv(MessageDeliveryRequestTlvValue::MessageState(state));
        }
        pdu
    }

    fn text(&self, id: &str) -> String {
        let beginning: String = self.message.text.chars().filter(char::is_ascii).take(20).collect();
        format!(
            "id:{} sub:001 dlvrd:001 submit date:2601020304 done date:2601020305 stat:{} err:{} text:{beginning}",
            id, self.state, self.error
        )
    }
}

fn address(number: &str) -> COctetString<1, 21> {
    let text = format!("{}\0", number.trim_start_matches('+'));
    COctetString::from_vec(text.into_bytes()).unwrap_or_default()
}
