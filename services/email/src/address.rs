//! Email addresses that are valid in an envelope and a header.

use lettre::Address;

/// Longest address in octets (RFC 5321 section 4.5.3.1.3, without the angle brackets).
const MAX_OCTETS: usize = 254;

/// Parses an address. An internationalised domain becomes its ASCII form (RFC 5890), so a server needs SMTPUTF8 only
/// for a non-ASCII local part.
pub(crate) fn parse(text: &str) -> Option<Address> {
    let unsafe_character = |character: char| character.is_control() || matches!(character, '<' | '>' | ' ');
    if text.len() > MAX_OCTETS || text.contains(unsafe_character) {
        return None;
    }
    let (local, domain) = text.rsplit_once('@')?;
    let domain = if domain.is_ascii() { domain.to_owned() } else { idna::domain_to_ascii(domain).ok()? };
    Address::new(local, domain).ok()
}
