//! In whose name an email goes out.

use domain::content::{EmailOptions, Object};
use domain::request::MAX_SENDER;
use lettre::Address;
use lettre::message::Mailbox;
use serde_json::Value;

use crate::address;
use crate::letter::LetterError;

/// Sender and address for answers, as the provider has them unless a send says otherwise.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `From` header, and the sender of the envelope.
    pub from: Mailbox,
    /// `Reply-To` header.
    pub reply_to: Option<Mailbox>,
    /// Senders that a send may name instead.
    pub allowed: AllowedFrom,
}

/// Senders that a send may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedFrom {
    /// None: every sender of the domain of the provider's own.
    listed: Option<Vec<Allowed>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    Any,
    /// In lower case.
    Domain(String),
    Address(Address),
}

impl AllowedFrom {
    /// Reads a list of addresses and `@domain`; `*` allows every sender. None if an entry is none of these.
    pub(crate) fn read(entries: &[Value]) -> Option<AllowedFrom> {
        let listed: Option<Vec<Allowed>> = entries.iter().map(Allowed::read).collect();
        Some(AllowedFrom { listed: Some(listed?) })
    }

    fn allows(&self, own: &Address, from: &Address) -> bool {
        let Some(listed) = &self.listed else { return from.domain().eq_ignore_ascii_case(own.domain()) };
        same(own, from)
            || listed.iter().any(|allowed| match allowed {
                Allowed::Any => true,
                Allowed::Domain(domain) => from.domain().eq_ignore_ascii_case(domain),
                Allowed::Address(address) => same(address, from),
            })
    }
}

impl Allowed {
    fn read(entry: &Value) -> Option<Allowed> {
        let text = entry.as_str()?;
        if text == "*" {
            return Some(Allowed::Any);
        }
        match text.strip_prefix('@') {
            // A domain is read as that of an address.
            Some(_) => {
                Some(Allowed::Domain(address::parse(&format!("a{text}"))?.domain().to_ascii_lowercase()))
            }
            None => address::parse(text).map(Allowed::Address),
        }
    }
}

/// Whether two addresses are one: capitals matter before the @ alone (RFC 5321 section 2.4).
fn same(one: &Address, other: &Address) -> bool {
    one.user() == other.user() && one.domain().eq_ignore_ascii_case(other.domain())
}

impl Identity {
    /// The identity of one email: what the send says of this provider (`_config`) counts before what it says of the
    /// channel, and that before the provider's own.
    pub(crate) fn of_send(
        &self,
        options: &EmailOptions,
        config: Option<&Object>,
    ) -> Result<Identity, LetterError> {
        let told = |member: &str, of_channel: &'_ Option<String>| {
            let of_provider = config.and_then(|config| config.get(member)).filter(|value| !value.is_null());
            match of_provider {
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(LetterError::Sender),
                None => Ok(of_channel.clone()),
            }
        };
        let mut identity = self.clone();
        if let Some(from) = told("from", &options.from)? {
            let from = address::parse(&from).ok_or(LetterError::Sender)?;
            if !self.allowed.allows(&self.from.email, &from) {
                return Err(LetterError::SenderNotAllowed);
            }
            identity.from.email = from;
        }
        if let Some(name) = told("fromName", &options.from_name)? {
            if name.contains(['\r', '\n', '\0']) || name.chars().count() > MAX_SENDER {
                return Err(LetterError::Sender);
            }
            identity.from.name = Some(name);
        }
        if let Some(reply_to) = told("replyTo", &options.reply_to)? {
            identity.reply_to = Some(address::parse(&reply_to).ok_or(LetterError::Sender)?.into());
        }
        Ok(identity)
    }
}
