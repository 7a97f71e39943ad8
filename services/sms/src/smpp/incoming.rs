//! Messages from a message centre: deliver_sm and data_sm (sections 4.6.1 and 4.7.1).

use domain::sms::gsm7;
use domain::sms::number::is_e164;

use super::pdu::{Fields, plain};

/// Bit of esm_class for a text that begins with a user data header.
const UDH_INDICATOR: u8 = 0x40;
/// Bits of esm_class that contain the type of a message.
const TYPE_MASK: u8 = 0x3c;
/// ton of a number with its country code (section 5.2.5).
const INTERNATIONAL: u8 = 1;
/// ton of a number without its country code.
const NATIONAL: u8 = 2;

/// Tags of optional parameters (section 5.3.2).
const RECEIPTED_MESSAGE_ID: u16 = 0x001e;
const MESSAGE_STATE: u16 = 0x0427;
const MESSAGE_PAYLOAD: u16 = 0x0424;

/// A message from a message centre: a receipt, or an SMS that a person has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncomingMessage {
    pub source: String,
    /// source_addr_ton.
    pub source_ton: u8,
    pub destination: String,
    pub esm_class: u8,
    pub data_coding: u8,
    /// short_message or message_payload.
    pub octets: Vec<u8>,
    /// receipted_message_id.
    pub receipted_id: Option<String>,
    /// message_state.
    pub state: Option<u8>,
}

impl IncomingMessage {
    #[must_use]
    pub fn of_deliver_sm(body: &[u8]) -> IncomingMessage {
        let mut fields = Fields::of(body);
        let mut message = IncomingMessage::with_addresses(&mut fields);
        // protocol_id and priority_flag
        fields.octets(2);
        let [_schedule_delivery_time, _validity_period] = [fields.text(), fields.text()];
        // registered_delivery and replace_if_present_flag
        fields.octets(2);
        message.data_coding = fields.octet().unwrap_or_default();
        // sm_default_msg_id
        fields.octets(1);
        let length = fields.octet().unwrap_or_default();
        message.octets = fields.octets(usize::from(length)).to_vec();
        message.with_parameters(fields)
    }

    #[must_use]
    pub fn of_data_sm(body: &[u8]) -> IncomingMessage {
        let mut fields = Fields::of(body);
        let mut message = IncomingMessage::with_addresses(&mut fields);
        // registered_delivery
        fields.octets(1);
        message.data_coding = fields.octet().unwrap_or_default();
        message.with_parameters(fields)
    }

    fn with_addresses(fields: &mut Fields<'_>) -> IncomingMessage {
        let _service_type = fields.text();
        let mut address = || (fields.octets(2).first().copied().unwrap_or_default(), fields.text());
        let ((source_ton, source), (_, destination)) = (address(), address());
        let esm_class = fields.octet().unwrap_or_default();
        IncomingMessage { source, source_ton, destination, esm_class, ..IncomingMessage::default() }
    }

    fn with_parameters(mut self, mut fields: Fields<'_>) -> IncomingMessage {
        while let Some((tag, value)) = fields.parameter() {
            match tag {
                RECEIPTED_MESSAGE_ID => {
                    self.receipted_id =
                        Some(plain(&String::from_utf8_lossy(value))).filter(|id| !id.is_empty());
                }
                MESSAGE_STATE => self.state = value.first().copied(),
                MESSAGE_PAYLOAD => self.octets = value.to_vec(),
                _ => {}
            }
        }
        self
    }

    /// Type of the message, from esm_class.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.esm_class & TYPE_MASK
    }

    /// Texts that the octets may stand for. In the default alphabet (data_coding 0) message centres send GSM 7-bit, ASCII,
    /// Latin-1 or UTF-8, and the message does not say which.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let octets = self.without_header();
        match self.data_coding {
            // 0x18 to 0x1b: UCS-2 with a message class (3GPP TS 23.038, section 4).
            8 | 0x18..=0x1b => vec![of_utf16(octets)],
            6 => vec![octets.iter().copied().map(cyrillic).collect()],
            7 => vec![octets.iter().copied().map(hebrew).collect()],
            _ => [
                gsm7::decode(octets),
                Some(octets.iter().copied().map(char::from).collect()),
                std::str::from_utf8(octets).ok().map(str::to_owned),
            ]
            .into_iter()
            .flatten()
            .collect(),
        }
    }

    fn without_header(&self) -> &[u8] {
        if self.esm_class & UDH_INDICATOR == 0 {
            return &self.octets;
        }
        let length = self.octets.first().map_or(0, |length| usize::from(*length) + 1);
        self.octets.get(length..).unwrap_or_default()
    }

    /// Returns the sender's number in E.164 form, or None if it has another form. `country` is the calling code of numbers
    /// without one.
    #[must_use]
    pub fn sender(&self, country: Option<&str>) -> Option<String> {
        let digits: String =
            self.source.chars().filter(|c| !matches!(c, ' ' | '-' | '(' | ')' | '.')).collect();
        let national =
            |digits: &str| country.map(|code| format!("+{code}{}", digits.trim_start_matches('0')));
        let number = match self.source_ton {
            _ if digits.starts_with('+') => Some(digits),
            _ if digits.starts_with("00") => digits.get(2..).map(|rest| format!("+{rest}")),
            NATIONAL => national(&digits),
            INTERNATIONAL => Some(format!("+{digits}")),
            _ if digits.starts_with('0') => national(&digits),
            _ => Some(format!("+{digits}")),
        };
        number.filter(|number| is_e164(number))
    }
}

/// Decodes UTF-16 in big-endian order, or in the order of its byte order mark. Replaces what is invalid.
pub(super) fn of_utf16(octets: &[u8]) -> String {
    let (octets, is_little) = match octets {
        [0xff, 0xfe, rest @ ..] => (rest, true),
        [0xfe, 0xff, rest @ ..] => (rest, false),
        _ => (octets, false),
    };
    let units = octets.chunks_exact(2).filter_map(|pair| <[u8; 2]>::try_from(pair).ok());
    let units = units.map(|pair| if is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) });
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Decodes ISO 8859-5. Replaces the few signs that are not letters.
fn cyrillic(octet: u8) -> char {
    match octet {
        0xa1..=0xac | 0xae..=0xef | 0xf1..=0xfc | 0xfe..=0xff => {
            char::from_u32(0x0360 + u32::from(octet)).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        0x80.. => ' ',
        ascii => char::from(ascii),
    }
}

/// Decodes the letters of ISO 8859-8. Replaces other characters outside of ASCII.
fn hebrew(octet: u8) -> char {
    match octet {
        0xe0..=0xfa => char::from_u32(0x04f0 + u32::from(octet)).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x80.. => ' ',
        ascii => char::from(ascii),
    }
}
