use serde_json::Value;

use crate::{EmailAddress, email_address};

/// Senders that a send may set, according to `allowedFrom` in the settings of an email provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSenders {
    /// None if `allowedFrom` is absent. A send may then set any address in the domain of the provider's sender.
    listed: Option<Vec<AllowedSender>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AllowedSender {
    Any,
    Domain(String),
    Address(EmailAddress),
}

impl AllowedSenders {
    /// Reads `allowedFrom`. An entry is an address, `@` with a domain, or `*` for every sender. Returns None if an
    /// entry is invalid.
    #[must_use]
    pub fn read(entries: &[Value]) -> Option<AllowedSenders> {
        let listed: Option<Vec<AllowedSender>> = entries.iter().map(AllowedSender::read).collect();
        Some(AllowedSenders { listed: Some(listed?) })
    }

    #[must_use]
    pub fn allows(&self, own: &EmailAddress, from: &EmailAddress) -> bool {
        let Some(listed) = &self.listed else { return from.domain() == own.domain() };
        own == from
            || listed.iter().any(|allowed| match allowed {
                AllowedSender::Any => true,
                AllowedSender::Domain(domain) => from.domain() == domain,
                AllowedSender::Address(address) => address == from,
            })
    }
}

impl AllowedSender {
    fn read(entry: &Value) -> Option<AllowedSender> {
        let text = entry.as_str()?;
        if text == "*" {
            return Some(AllowedSender::Any);
        }
        match text.strip_prefix('@') {
            Some(domain) => email_address::read_domain(domain).ok().map(AllowedSender::Domain),
            None => EmailAddress::parse(text).ok().map(AllowedSender::Address),
        }
    }
}

/// Returns true unless the settings of an email provider show that it refuses this sender. Unreadable settings show nothing: the worker
/// pauses their provider.
#[must_use]
pub fn may_send_as(settings: &Value, from: &EmailAddress) -> bool {
    let own = settings.get("from").and_then(Value::as_str).and_then(|own| EmailAddress::parse(own).ok());
    let allowed = match settings.get("allowedFrom") {
        None | Some(Value::Null) => Some(AllowedSenders::default()),
        Some(Value::Array(entries)) => AllowedSenders::read(entries),
        Some(_) => None,
    };
    own.zip(allowed).is_none_or(|(own, allowed)| allowed.allows(&own, from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sender_is_refused_only_if_readable_settings_do_not_allow_it() {
        let from = EmailAddress::parse("news@Shop.example").unwrap();
        for settings in [
            json!({}),
            json!({"from": "?"}),
            json!({"from": "own@other.example", "allowedFrom": "shop.example"}),
            json!({"from": "own@shop.example", "allowedFrom": null}),
            json!({"from": "own@other.example", "allowedFrom": ["@shop.example"]}),
            json!({"from": "own@other.example", "allowedFrom": ["*"]}),
            json!({"from": "news@shop.example", "allowedFrom": []}),
        ] {
            assert!(may_send_as(&settings, &from), "{settings}");
        }
        for settings in [
            json!({"from": "own@other.example"}),
            json!({"from": "own@shop.example", "allowedFrom": []}),
            json!({"from": "own@shop.example", "allowedFrom": ["info@shop.example", "@mail.shop.example"]}),
        ] {
            assert!(!may_send_as(&settings, &from), "{settings}");
        }
    }
}
