//! Email addresses: mailboxes of RFC 5321 (section 4.1.2), with local parts of RFC 6531 (section 3.3) and domains of UTS 46.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use unicode_normalization::UnicodeNormalization as _;

/// Longest part before the `@`, in bytes (RFC 5321, section 4.5.3.1.1).
pub const MAX_LOCAL_PART: usize = 64;
/// Longest address, in bytes (RFC 5321, section 4.5.3.1.3, without the angle brackets).
pub const MAX_ADDRESS: usize = 254;

/// An address that an envelope and a header can hold.
///
/// Two addresses are equal if they name the same mailbox: case, Unicode form, needless quotes and the notation of the domain do not matter.
/// The local part is sent as given but without needless quotes, and the domain in lower case as A-labels.
#[derive(Clone, Debug)]
pub struct EmailAddress {
    text: String,
    at: usize,
    key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressProblem {
    #[error("must be an email address such as ada@example.com")]
    NoAddress,
    #[error("must be an email address such as ada@example.com, without a name around it")]
    Named,
    #[error("must have 1 to {MAX_LOCAL_PART} bytes before the @")]
    LocalPartLength,
    #[error(
        "has a character before the @ that an address may contain only in quotes, a dot at an end, or two dots in a row"
    )]
    LocalPart,
    #[error("must have a domain name after the @, such as example.com")]
    Domain,
    #[error("must have a domain name after the @, not an IP address")]
    Literal,
    #[error("must have at most {MAX_ADDRESS} bytes, with the domain in its ASCII form")]
    TooLong,
}

impl EmailAddress {
    /// Parses an address, ignoring white space around it. Address literals such as `a@[127.0.0.1]` are valid in RFC 5321 but refused,
    /// because they let the author of an address choose the host that a relay connects to. So are `<` and `>` in quotes, because some
    /// servers end the path of a command at the first `>`.
    pub fn parse(text: &str) -> Result<EmailAddress, AddressProblem> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if text.ends_with('>') {
            return Err(AddressProblem::Named);
        }
        let (local, domain) = text.rsplit_once('@').ok_or(AddressProblem::NoAddress)?;
        let local = read_local_part(local)?;
        let domain = read_domain(domain)?;
        let text = format!("{local}@{domain}");
        if text.len() > MAX_ADDRESS {
            return Err(AddressProblem::TooLong);
        }
        let key = format!("{}@{domain}", folded(&local));
        Ok(EmailAddress { at: local.len(), text, key })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Contains quotes if it needs them.
    #[must_use]
    pub fn local_part(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// Lower case, as A-labels (RFC 5890).
    #[must_use]
    pub fn domain(&self) -> &str {
        self.text.get(self.at + 1..).unwrap_or_default()
    }

    /// The form that all spellings of the same mailbox share, for comparisons only; it may not be sent to.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the address with its domain in Unicode, if that differs. Rows of releases up to 0.5 may contain this form.
    #[must_use]
    pub fn with_unicode_domain(&self) -> Option<String> {
        if !self.domain().contains("xn--") {
            return None;
        }
        let (domain, result) = idna::domain_to_unicode(self.domain());
        (result.is_ok() && domain != self.domain()).then(|| format!("{}@{domain}", self.local_part()))
    }
}

impl PartialEq for EmailAddress {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for EmailAddress {}

impl Hash for EmailAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for EmailAddress {
    type Err = AddressProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        EmailAddress::parse(text)
    }
}

pub fn read_domain(text: &str) -> Result<String, AddressProblem> {
    if text.starts_with('[') {
        return Err(AddressProblem::Literal);
    }
    let ascii = Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify)
        .map_err(|_| AddressProblem::Domain)?;
    // No top-level domain is a number, so a last label of digits belongs to an IPv4 address.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    if ascii.rsplit('.').next().is_some_and(is_number) {
        return Err(AddressProblem::Literal);
    }
    Ok(ascii.into_owned())
}

/// Removes quotes that the local part does not need (RFC 5321, section 4.1.2).
fn read_local_part(text: &str) -> Result<String, AddressProblem> {
    if text.is_empty() {
        return Err(AddressProblem::LocalPartLength);
    }
    let local = match text.strip_prefix('"') {
        None if is_dot_string(text) => text.to_owned(),
        None => return Err(AddressProblem::LocalPart),
        Some(quoted) => {
            let content = unquoted(quoted).ok_or(AddressProblem::LocalPart)?;
            if is_dot_string(&content) { content } else { quoted_string(&content) }
        }
    };
    if local.len() > MAX_LOCAL_PART { Err(AddressProblem::LocalPartLength) } else { Ok(local) }
}

fn is_dot_string(text: &str) -> bool {
    let is_atom = |atom: &str| !atom.is_empty() && atom.chars().all(is_atom_character);
    text.split('.').all(is_atom)
}

fn is_atom_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || is_beyond_ascii(c)
}

/// Returns true for the characters beyond ASCII that RFC 6531 allows in a local part, except white space and control characters.
fn is_beyond_ascii(c: char) -> bool {
    !c.is_ascii() && !c.is_control() && !c.is_whitespace()
}

/// `text` lacks its opening quote already.
fn unquoted(text: &str) -> Option<String> {
    let is_allowed = |c: &char| (matches!(c, ' '..='~') || is_beyond_ascii(*c)) && !matches!(c, '<' | '>');
    let mut content = String::with_capacity(text.len());
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return rest.next().is_none().then_some(content),
            '\\' => content.push(rest.next().filter(char::is_ascii).filter(is_allowed)?),
            c => content.push(Some(c).filter(is_allowed)?),
        }
    }
}

fn quoted_string(content: &str) -> String {
    let mut text = String::with_capacity(content.len() + 2);
    text.push('"');
    for c in content.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

/// The result folds to itself.
fn folded(local: &str) -> String {
    if local.is_ascii() {
        return local.to_ascii_lowercase();
    }
    // A sigma has two small forms, of which one stands at the end of a word. Lower-casing can end the composed form.
    let lower =
        local.nfc().flat_map(char::to_lowercase).map(|letter| if letter == 'ς' { 'σ' } else { letter });
    let lower: String = lower.collect();
    lower.nfc().collect()
}

#[cfg(test)]
mod tests;
