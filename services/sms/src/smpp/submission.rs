//! Encodes messages as submit_sm PDUs (section 4.4.1).

use domain::Timestamp;
use domain::content::SmsContent;
use domain::sms::segment::{Alphabet, SegmentedText};
use rusmpp::pdus::SubmitSm;
use rusmpp::tlvs::MessageSubmissionRequestTlvValue;
use rusmpp::types::{AnyOctetString, COctetString, EmptyOrFullCOctetString, OctetString};
use rusmpp::values::{DataCoding, EsmClass, MessagePayload, Npi, RegisteredDelivery, Ton};
use worker::Call;

use super::settings::{Concatenation, SmppSettings};

/// Value of esm_class for a short message that begins with a user data header.
const UDH_INDICATOR: u8 = 0x40;
/// Value of registered_delivery that requests a receipt for success and for failure.
const RECEIPT: u8 = 0x01;
/// Value of data_coding for the default alphabet.
const DEFAULT_ALPHABET: u8 = 0x00;
/// Value of data_coding for UCS-2.
const UCS2: u8 = 0x08;

/// Encodes the parts in order. Only the last part requests a receipt, which counts for the whole message. Returns None if an address or a
/// text does not fit its field.
pub(crate) fn parts(
    settings: &SmppSettings,
    call: &Call<'_>,
    content: &SmsContent,
    segments: &SegmentedText<'_>,
) -> Option<Vec<SubmitSm>> {
    let from = content.from.as_ref().unwrap_or(&settings.from);
    let envelope = envelope(from, &call.job.target, call.job.expires_at, segments.alphabet)?;
    let encode = |text| segments.alphabet.encode(text);
    let total = u8::try_from(segments.parts.len()).ok()?;
    let mut parts = Vec::with_capacity(segments.parts.len());
    match (total, settings.concatenation) {
        (1, _) => parts.push(envelope.with_short_message(octets(encode(segments.parts.first()?)?)?)),
        (_, Concatenation::Payload) => {
            let payload = MessagePayload::new(AnyOctetString::from_vec(encode(&content.text)?));
            let mut whole = envelope;
            whole.push_tlv(MessageSubmissionRequestTlvValue::MessagePayload(payload));
            parts.push(whole);
        }
        (_, Concatenation::Udh) => {
            // Every attempt uses the same reference, so that a phone recognises repeated parts of the message.
            let reference = call.job.delivery_id.0.as_bytes()[15];
            for (number, text) in (1..=total).zip(&segments.parts) {
                let mut message = vec![5, 0, 3, reference, total, number];
                message.extend(encode(text)?);
                let mut part = envelope.clone().with_short_message(octets(message)?);
                part.esm_class = EsmClass::from(UDH_INDICATOR);
                parts.push(part);
            }
        }
    }
    if settings.receipts {
        parts.last_mut()?.registered_delivery = RegisteredDelivery::from(RECEIPT);
    }
    Some(parts)
}

fn envelope(from: &str, to: &str, expires_at: Option<Timestamp>, alphabet: Alphabet) -> Option<SubmitSm> {
    let (source_ton, source_npi, source) = address(from)?;
    let (dest_ton, dest_npi, destination) = address(to)?;
    let validity = match expires_at {
        Some(expires_at) => EmptyOrFullCOctetString::from_string(absolute(expires_at)?).ok()?,
        None => EmptyOrFullCOctetString::empty(),
    };
    let data_coding = match alphabet {
        Alphabet::Gsm7 => DEFAULT_ALPHABET,
        Alphabet::Ucs2 => UCS2,
    };
    let submission = SubmitSm::builder()
        .source_addr_ton(source_ton)
        .source_addr_npi(source_npi)
        .source_addr(source)
        .dest_addr_ton(dest_ton)
        .dest_addr_npi(dest_npi)
        .destination_addr(destination)
        // Default message mode. The library's default would set a bit that only ANSI-41 networks use.
        .esm_class(EsmClass::from(0))
        .validity_period(validity)
        .data_coding(DataCoding::from(data_coding));
    Some(submission.build())
}

/// Encodes an address with its type of number and numbering plan. Returns None if the address is longer than 20 octets.
fn address(text: &str) -> Option<(Ton, Npi, COctetString<1, 21>)> {
    let (ton, npi, digits) = match text.strip_prefix('+') {
        Some(digits) => (Ton::International, Npi::Isdn, digits),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => (Ton::NetworkSpecific, Npi::Unknown, text),
        None => (Ton::Alphanumeric, Npi::Unknown, text),
    };
    let text = COctetString::from_bytes(format!("{digits}\0").into_bytes().into()).ok()?;
    Some((ton, npi, text))
}

fn octets(message: Vec<u8>) -> Option<OctetString<0, 255>> {
    OctetString::from_vec(message).ok()
}

/// Formats a time in UTC as `YYMMDDhhmmss000+` (section 7.1.1.1).
fn absolute(time: Timestamp) -> Option<String> {
    // 2026-01-02T03:04:05.678Z
    let text = time.to_string();
    let digits: String = text.get(2..19)?.chars().filter(char::is_ascii_digit).collect();
    Some(digits + "000+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_and_in_utc() {
        let time = Timestamp::parse("2026-01-02T05:04:05.678+02:00").unwrap();
        assert_eq!(absolute(time).as_deref(), Some("260102030405000+"));
    }
}
