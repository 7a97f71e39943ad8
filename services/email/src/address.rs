//! Email addresses, as they may stand in an envelope and a header.

use lettre::Address;

/// Octets of an address (RFC 5321 section 4.5.3.1.3, less the angle brackets).
const MAX_OCTETS: usize = 254;

/// Reads an address; an internationalised domain becomes its ASCII form (RFC 5890), so that a server needs SMTPUTF8
/// only for a local part beyond ASCII.
pub(crate) fn parse(text: &str) -> Option<Address> {
    let unsafe_character = |character: char| character.is_control() || matches!(character, '<' | '>' | ' ');
    if text.len() > MAX_OCTETS || text.contains(unsafe_character) {
        return None;
    }
    let (local, domain) = text.rsplit_once('@')?;
    let domain = if domain.is_ascii() { domain.to_owned() } else { idna::domain_to_ascii(domain).ok()? };
    Address::new(local, domain).ok()
}
