use domain::EmailAddress;
use lettre::Address;

/// Accepts local parts that RFC 6531 allows, although the library's own parser refuses them.
pub(crate) fn of(address: &EmailAddress) -> Address {
    Address::new_dangerous(address.local_part(), address.domain())
}

pub(crate) fn parse(text: &str) -> Option<Address> {
    EmailAddress::parse(text).ok().as_ref().map(of)
}
