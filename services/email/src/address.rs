//! Email addresses in the type of the library that writes headers.

use domain::EmailAddress;
use lettre::Address;

/// Converts an address. The library's own parser refuses local parts that RFC 6531 allows.
pub(crate) fn of(address: &EmailAddress) -> Address {
    Address::new_dangerous(address.local_part(), address.domain())
}

/// Parses an address.
pub(crate) fn parse(text: &str) -> Option<Address> {
    EmailAddress::parse(text).ok().as_ref().map(of)
}
