use rusmpp::Pdu;
use rusmpp::pdus::{DataSm, DeliverSm};
use rusmpp::tlvs::{MessageDeliveryRequestTlvValue, MessageSubmissionRequestTlvValue};
use rusmpp::types::{AnyOctetString, COctetString, OctetString};
use rusmpp::values::{DataCoding, EsmClass, MessagePayload, Npi, Ton};

/// Field or PDU that carries the text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// short_message of a deliver_sm.
    ShortMessage,
    /// message_payload of a deliver_sm.
    Payload,
    /// message_payload of a data_sm.
    DataSm,
}

#[derive(Clone, Debug)]
pub struct PersonMessage {
    /// source_addr, as it is.
    pub from: String,
    pub ton: u8,
    pub esm_class: u8,
    pub data_coding: u8,
    pub octets: Vec<u8>,
    pub carrier: Carrier,
}

impl PersonMessage {
    /// Creates a message in the default alphabet from an international number, given with its `+`.
    #[must_use]
    pub fn new(from: &str, octets: impl Into<Vec<u8>>) -> PersonMessage {
        PersonMessage {
            from: from.trim_start_matches('+').to_owned(),
            ton: 1,
            esm_class: 0,
            data_coding: 0,
            octets: octets.into(),
            carrier: Carrier::ShortMessage,
        }
    }

    #[must_use]
    pub fn from(mut self, source: &str) -> PersonMessage {
        source.clone_into(&mut self.from);
        self
    }

    #[must_use]
    pub fn in_ucs2(from: &str, text: &str) -> PersonMessage {
        let octets: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        PersonMessage { data_coding: 8, ..PersonMessage::new(from, octets) }
    }

    /// Puts a user data header before the text, as for part `number` of `total`.
    #[must_use]
    pub fn with_header(mut self, total: u8, number: u8) -> PersonMessage {
        self.esm_class |= 0x40;
        self.octets.splice(0..0, [5, 0, 3, 7, total, number]);
        self
    }

    pub(super) fn pdu(&self) -> Pdu {
        let source = COctetString::from_vec(format!("{}\0", self.from).into_bytes()).unwrap_or_default();
        let (ton, coding) = (Ton::from(self.ton), DataCoding::from(self.data_coding));
        let payload = MessagePayload::new(AnyOctetString::from_vec(self.octets.clone()));
        if self.carrier == Carrier::DataSm {
            let message = DataSm::builder()
                .source_addr_ton(ton)
                .source_addr_npi(Npi::Isdn)
                .source_addr(source)
                .esm_class(EsmClass::from(self.esm_class))
                .data_coding(coding);
            let payload = MessageSubmissionRequestTlvValue::MessagePayload(payload);
            return Pdu::DataSm(message.push_tlv(payload).build());
        }
        let mut message = DeliverSm::builder()
            .source_addr_ton(ton)
            .source_addr_npi(Npi::Isdn)
            .source_addr(source)
            .esm_class(EsmClass::from(self.esm_class))
            .data_coding(coding)
            .short_message(OctetString::default())
            .build();
        if self.carrier == Carrier::Payload {
            message.push_tlv(MessageDeliveryRequestTlvValue::MessagePayload(payload));
        } else {
            message.set_short_message(OctetString::from_vec(self.octets.clone()).unwrap_or_default());
        }
        Pdu::DeliverSm(message)
    }
}
