//! Comparison of recipients.

use domain::{EmailAddress, PhoneNumber};

/// Returns true if both texts name the same mailbox, phone, or token, whatever the case and the notation of the first two.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (EmailAddress::parse(one), EmailAddress::parse(other)) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), Err(_)) => PhoneNumber::parse(one).is_ok_and(|one| PhoneNumber::parse(other) == Ok(one)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn mailboxes_and_numbers_are_the_same_in_every_notation() {
        for (one, other) in [
            ("Ada@EXAMPLE.com", "ada@example.com"),
            (" ada@example.com", "ada@example.com"),
            ("ada@m\u{fc}nchen.example", "ada@xn--mnchen-3ya.example"),
            ("+49 (0)151 / 12345678", "+4915112345678"),
            ("fcm:Token", "fcm:Token"),
        ] {
            assert!(is_same(one, other) && is_same(other, one), "{one}");
        }
        for (one, other) in [
            ("ada@example.com", "bob@example.com"),
            ("+4915112345678", "+4915112345679"),
            ("fcm:Token", "fcm:token"),
            ("ada@example.com", "ada"),
            ("0151", "0 151"),
        ] {
            assert!(!is_same(one, other) && !is_same(other, one), "{one}");
        }
    }
}
