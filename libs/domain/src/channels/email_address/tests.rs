use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> EmailAddress {
    EmailAddress::parse(text).unwrap_or_else(|problem| panic!("{text:?}: {problem}"))
}

#[test]
fn every_local_part_of_the_standards_is_accepted() {
    for text in [
        "ada@example.com",
        "a@b.c",
        "ada@intranet",
        "ada+tag@example.com",
        "!#$%&'*+-/=?^_`{|}~@example.com",
        "o'brien@example.ie",
        "संपर्क@example.com",
        "தமிழ்@example.com",
        "ගිණුම්@example.com",
        "jose\u{301}@example.com",
        "😀@example.com",
        "ශ්\u{200d}රී@example.com",
        "用户@例子.广告",
        "\"a b\"@example.com",
        "\"a@b\"@example.com",
        "\"\\\"\"@example.com",
        "\"\"@example.com",
        "\".a\"@example.com",
        "a@xn--bcher-kva.example",
        "a@r3---sn.example",
    ] {
        parsed(text);
    }
    let longest = "a".repeat(MAX_LOCAL_PART);
    parsed(&format!("{longest}@example.com"));
    let labels = ["b".repeat(63), "c".repeat(63), "d".repeat(57), "com".to_owned()].join(".");
    assert_eq!(parsed(&format!("{longest}@{labels}")).as_str().len(), MAX_ADDRESS);
}

#[test]
fn a_malformed_address_is_refused_with_its_reason() {
    use AddressProblem::{Domain, Literal, LocalPart, LocalPartLength, Named, NoAddress, TooLong};
    let cases = [
        ("", NoAddress),
        ("ada", NoAddress),
        ("Ada <ada@example.com>", Named),
        ("<ada@example.com>", Named),
        ("@example.com", LocalPartLength),
        ("te..st@example.com", LocalPart),
        (".a@example.com", LocalPart),
        ("a.@example.com", LocalPart),
        ("a b@example.com", LocalPart),
        ("a@b@example.com", LocalPart),
        ("a, b@example.com", LocalPart),
        ("a\r\nBcc: x@example.com", LocalPart),
        ("a\u{85}b@example.com", LocalPart),
        ("a\u{2028}b@example.com", LocalPart),
        ("\"a@example.com", LocalPart),
        ("\"a\"b@example.com", LocalPart),
        ("\"a\r\n\"@example.com", LocalPart),
        ("\"> SIZE=1\"@example.com", LocalPart),
        ("\"\\<a\"@example.com", LocalPart),
        ("ada@", Domain),
        ("ada@.com", Domain),
        ("ada@example.", Domain),
        ("ada@a..b", Domain),
        ("ada@-bad.example", Domain),
        ("ada@bad-.example", Domain),
        ("ada@ex ample.com", Domain),
        ("ada@ex_ample.com", Domain),
        ("ada@xn--zzzzzzzz-.example", Domain),
        ("ada@example.com\r\nBcc: x", Domain),
        ("ada@[127.0.0.1]", Literal),
        ("ada@[IPv6:::1]", Literal),
        ("ada@127.0.0.1", Literal),
    ];
    for (text, problem) in cases {
        assert_eq!(EmailAddress::parse(text).map(|address| address.to_string()), Err(problem), "{text:?}");
    }
    let (local, label) = ("a".repeat(MAX_LOCAL_PART), "b".repeat(63));
    assert_eq!(EmailAddress::parse(&format!("{local}a@example.com")).err(), Some(LocalPartLength));
    assert_eq!(EmailAddress::parse(&format!("a@{label}b.com")).err(), Some(Domain));
    let longest = format!("{local}@{label}.{label}.{label}.com");
    assert_eq!(EmailAddress::parse(&longest).err(), Some(TooLong));
}

#[test]
fn spellings_of_one_mailbox_are_equal() {
    let groups: [&[&str]; 5] = [
        &[
            "dead@Receiver.Example",
            "dead@receiver.example",
            "DEAD@RECEIVER.EXAMPLE",
            " dead@receiver.example\n",
        ],
        &["a@bücher.example", "a@xn--bcher-kva.example", "A@BÜCHER.example", "a@bu\u{308}cher。example"],
        &["jos\u{e9}@x.example", "jose\u{301}@x.example", "JOSÉ@x.example"],
        &["\"ada\"@x.example", "ada@x.example", "\"\\a\\d\\a\"@x.example"],
        &["\"A b\"@x.example", "\"a\\ b\"@x.example"],
    ];
    for group in groups {
        for (one, other) in group.iter().zip(group.iter().skip(1)) {
            assert_eq!(parsed(one), parsed(other), "{one} {other}");
        }
    }
    let different =
        ["a@x.example", "a@y.example", "b@x.example", "a.b@x.example", "\"a b\"@x.example", "a+b@x.example"];
    for (index, one) in different.iter().enumerate() {
        assert!(different.iter().skip(index + 1).all(|other| parsed(one) != parsed(other)), "{one}");
    }
}

#[test]
fn an_address_is_sent_as_given_with_its_domain_as_a_labels() {
    assert_eq!(parsed(" Ada@BÜCHER.example ").as_str(), "Ada@xn--bcher-kva.example");
    assert_eq!(parsed("Ada@bücher.example").with_unicode_domain().as_deref(), Some("Ada@bücher.example"));
    assert_eq!(parsed("ada@example.com").with_unicode_domain(), None);
    assert_eq!(parsed("jose\u{301}@x.example").local_part(), "jose\u{301}");
}

/// Local parts and domains of the standards, and texts that only resemble them.
fn texts() -> impl Strategy<Value = String> {
    let local = prop_oneof![
        "[a-zA-Z0-9!#$%&'*+/=?^_{|}~.-]{0,12}",
        "\"[ -~]{0,8}\"",
        "[\\p{L}\\p{M}\\p{N}\\p{So}.\u{200d}]{1,8}",
        "\\PC{0,8}",
    ];
    let domain = prop_oneof![
        "[a-zA-Z0-9-]{1,8}(\\.[a-zA-Z0-9-]{1,8}){0,3}",
        "[\\p{L}\\p{M}]{1,6}[.。][a-z]{2,4}",
        "xn--[a-z0-9-]{1,12}\\.[a-z]{2}",
        "\\PC{0,12}",
    ];
    prop_oneof![
        4 => (local, domain).prop_map(|(local, domain)| format!("{local}@{domain}")),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn an_address_that_is_parsed_from_its_own_text_is_the_same(text in texts()) {
        if let Ok(address) = EmailAddress::parse(&text) {
            let again = EmailAddress::parse(address.as_str());
            prop_assert_eq!(again.as_ref().map(EmailAddress::as_str), Ok(address.as_str()));
            prop_assert_eq!(again.map(|again| again.key().to_owned()), Ok(address.key().to_owned()));
            prop_assert!(address.as_str().len() <= MAX_ADDRESS);
            prop_assert!(address.domain().is_ascii());
            prop_assert!(!address.as_str().chars().any(char::is_control));
        }
    }

    #[test]
    fn equality_survives_case_unicode_forms_and_notations_of_the_domain(text in texts()) {
        let Ok(address) = EmailAddress::parse(&text) else { return Ok(()) };
        let (local, domain) = (address.local_part(), address.domain());
        let spelling = |local: String, domain: &str| EmailAddress::parse(&format!("{local}@{domain}"));
        let mut others = vec![
            spelling(local.to_owned(), &domain.to_ascii_uppercase()),
            spelling(local.nfc().collect(), domain),
            spelling(local.to_lowercase(), domain),
            EmailAddress::parse(&format!("\t{text}\u{a0}")),
        ];
        others.extend(address.with_unicode_domain().map(|text| EmailAddress::parse(&text)));
        if local.is_ascii() {
            others.push(spelling(local.to_ascii_uppercase(), domain));
        }
        // A spelling may be too long.
        let others: Vec<_> = others.into_iter().flatten().collect();
        for other in &others {
            prop_assert_eq!(other, &address);
            prop_assert_eq!(&address, other);
            prop_assert!(others.iter().all(|third| third == other));
        }
    }

    #[test]
    fn keys_of_different_domains_and_tags_differ(local in "[a-z]{1,8}", domain in "[a-z]{1,8}\\.example") {
        let address = parsed(&format!("{local}@{domain}"));
        prop_assert_ne!(&address, &parsed(&format!("{local}+x@{domain}")));
        prop_assert_ne!(&address, &parsed(&format!("{local}@x.{domain}")));
    }
}
