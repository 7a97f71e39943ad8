use domain::sms::gsm7;
use rusmpp::pdus::SubmitSm;
use rusmpp::tlvs::TlvValue;

// Values of command_status for refused submissions.
const INVALID_LENGTH: u32 = 0x01;
const INVALID_ESM_CLASS: u32 = 0x43;
const INVALID_DATA_CODING: u32 = 0x104;
const INVALID_SOURCE: u32 = 0x0a;
const INVALID_DESTINATION: u32 = 0x0b;
const INVALID_EXPIRY: u32 = 0x62;

/// Value of esm_class for a text that begins with a user data header.
const UDH_INDICATOR: u8 = 0x40;
/// Maximum length of a GSM 7-bit text in septets: without a user data header, and with one.
const SEPTETS: (usize, usize) = (160, 153);
/// Maximum length of a UCS-2 text in octets: without a user data header, and with one.
const UCS2_OCTETS: (usize, usize) = (140, 134);

pub(super) struct Part {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) text: String,
    /// Reference number of the message, and number of its parts. None for a whole message.
    pub(super) of: Option<(u8, u8)>,
    /// Number of the part, counted from 1.
    pub(super) number: u8,
}

impl Part {
    /// Reads a submission. If it is invalid, the error is the command_status with which it must be refused.
    pub(super) fn read(submission: &SubmitSm) -> Result<Part, u32> {
        let esm_class = u8::from(submission.esm_class);
        if esm_class & !UDH_INDICATOR != 0 {
            return Err(INVALID_ESM_CLASS);
        }
        let to = destination(submission)?;
        let from = source(submission)?;
        let validity = submission.validity_period.as_str().trim_end_matches('\0');
        if !(validity.is_empty() || is_absolute(validity)) {
            return Err(INVALID_EXPIRY);
        }
        let data_coding = u8::from(submission.data_coding);
        let payload = submission.tlvs().iter().find_map(|tlv| match tlv.value() {
            Some(TlvValue::MessagePayload(payload)) => Some(payload.value.as_ref().to_vec()),
            _ => None,
        });
        let short = submission.short_message().as_ref();
        match payload {
            Some(_) if !short.is_empty() || esm_class != 0 => Err(INVALID_LENGTH),
            Some(payload) => {
                Ok(Part { from, to, text: decode(data_coding, &payload, usize::MAX)?, of: None, number: 1 })
            }
            None if esm_class == 0 => {
                let room = room(data_coding, false);
                Ok(Part { from, to, text: decode(data_coding, short, room)?, of: None, number: 1 })
            }
            None => {
                let (header, text) = short.split_at_checked(6).ok_or(INVALID_LENGTH)?;
                let [5, 0, 3, reference, total, number] = *header else { return Err(INVALID_ESM_CLASS) };
                if number == 0 || number > total {
                    return Err(INVALID_ESM_CLASS);
                }
                let text = decode(data_coding, text, room(data_coding, true))?;
                Ok(Part { from, to, text, of: Some((reference, total)), number })
            }
        }
    }
}

/// Returns the destination, preceded by `+`. Returns an error unless it is an international number (E.164).
fn destination(submission: &SubmitSm) -> Result<String, u32> {
    let number = format!("+{}", submission.destination_addr);
    let (ton, npi) = (u8::from(submission.dest_addr_ton), u8::from(submission.dest_addr_npi));
    if (ton, npi) == (1, 1) && domain::sms::number::is_e164(&number) {
        Ok(number)
    } else {
        Err(INVALID_DESTINATION)
    }
}

fn source(submission: &SubmitSm) -> Result<String, u32> {
    let text = submission.source_addr.to_string();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match u8::from(submission.source_addr_ton) {
        1 if is_number => Ok(format!("+{text}")),
        0 | 2 | 3 if is_number => Ok(text),
        5 if (1..=11).contains(&text.len()) => Ok(text),
        _ => Err(INVALID_SOURCE),
    }
}

fn room(data_coding: u8, has_header: bool) -> usize {
    let (alone, part) = if data_coding == 8 { UCS2_OCTETS } else { SEPTETS };
    if has_header { part } else { alone }
}

fn decode(data_coding: u8, octets: &[u8], room: usize) -> Result<String, u32> {
    if octets.len() > room || octets.is_empty() {
        return Err(INVALID_LENGTH);
    }
    match data_coding {
        0 => gsm7::decode(octets).ok_or(INVALID_LENGTH),
        8 if octets.len().is_multiple_of(2) => {
            let units: Vec<u16> =
                octets.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            // The conversion fails at an unpaired surrogate: the client has split a character between two parts.
            String::from_utf16(&units).map_err(|_| INVALID_LENGTH)
        }
        _ => Err(INVALID_DATA_CODING),
    }
}

/// Returns true if a text is an absolute time (`YYMMDDhhmmsstnnp`).
fn is_absolute(text: &str) -> bool {
    text.len() == 16
        && text.bytes().take(15).all(|byte| byte.is_ascii_digit())
        && text.ends_with(['+', '-', 'R'])
}
