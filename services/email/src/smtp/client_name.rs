//! Name with which the client introduces itself in EHLO (RFC 5321 section 4.1.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name in octets (RFC 5321 section 4.5.3.1.2).
const LONGEST: usize = 255;
/// Longest label in octets (RFC 1035 section 2.3.4).
const LONGEST_LABEL: usize = 63;
/// Top-level domains of names that are valid only inside a network (RFC 2606, RFC 6761, RFC 6762, and those in common use).
const INSIDE: [&str; 17] = [
    "alt",
    "arpa",
    "cluster",
    "corp",
    "docker",
    "example",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "onion",
    "private",
    "test",
];

/// Parses a name: a DNS name, or an address in brackets. An internationalised name becomes its ASCII form.
pub(super) fn parse(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let is_address = match address.split_at_checked(5) {
            Some((tag, address)) if tag.eq_ignore_ascii_case("IPv6:") => address.parse::<Ipv6Addr>().is_ok(),
            _ => address.parse::<Ipv4Addr>().is_ok(),
        };
        return is_address.then(|| text.to_owned());
    }
    // A relay would take a bare address for a name.
    if text.parse::<IpAddr>().is_ok() {
        return None;
    }
    let name = if text.is_ascii() { text.to_owned() } else { idna::domain_to_ascii(text).ok()? };
    (name.len() <= LONGEST && name.split('.').all(is_label)).then_some(name)
}

fn is_label(label: &str) -> bool {
    let edges = [label.bytes().next(), label.bytes().next_back()];
    label.len() <= LONGEST_LABEL
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && edges.iter().all(|edge| edge.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

/// Returns the name of a provider without a setting: the name of this machine if it is a public one, otherwise the domain of the
/// provider's sender, which relays can look up.
pub(super) fn default(sender_domain: &str) -> String {
    chosen(&rustix::system::uname().nodename().to_string_lossy(), sender_domain)
}

fn chosen(machine: &str, sender_domain: &str) -> String {
    let public = parse(machine.trim_end_matches('.')).filter(|name| {
        let top = name.rsplit_once('.').map(|(_, top)| top.to_ascii_lowercase());
        top.is_some_and(|top| {
            top.len() > 1
                && top.starts_with(|first: char| first.is_ascii_alphabetic())
                && !INSIDE.contains(&&*top)
        })
    });
    public.unwrap_or_else(|| sender_domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_in_brackets_are_accepted() {
        for name in ["mail.example.com", "relay", "a-b.example", "[192.0.2.1]", "[IPv6:2001:db8::1]"] {
            assert_eq!(parse(name).as_deref(), Some(name));
        }
        assert_eq!(parse("müller.example").as_deref(), Some("xn--mller-kva.example"));
        for name in [
            "",
            ".",
            "a..b",
            "a.example.",
            "192.0.2.1",
            "2001:db8::1",
            "[a.example]",
            "[2001:db8::1]",
            "-a.example",
            "a_b.example",
            "a b",
            "a\r\nMAIL FROM:<eve@example.com>",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(parse(&format!("{}.example", "a".repeat(64))), None);
        assert_eq!(parse(&"a.".repeat(200)), None);
    }

    #[test]
    fn the_default_is_the_public_name_of_the_machine_or_the_senders_domain() {
        for (machine, name) in [
            ("mail1.shop.com", "mail1.shop.com"),
            ("mail1.shop.com.", "mail1.shop.com"),
            ("3f2a9c1b7d21", "example.org"),
            ("localhost.localdomain", "example.org"),
            ("ip-10-0-0-12.eu-west-1.compute.internal", "example.org"),
            ("nas.Local", "example.org"),
            ("10.0.0.1", "example.org"),
            ("worker_1.shop.com", "example.org"),
            ("", "example.org"),
        ] {
            assert_eq!(chosen(machine, "example.org"), name, "{machine}");
        }
    }
}
