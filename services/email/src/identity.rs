//! Sender identity of an email.

use domain::content::{EmailOptions, Object};
use domain::request::MAX_SENDER;
use domain::{EmailAddress, email_address};
use lettre::message::Mailbox;
use serde_json::Value;

use crate::address;
use crate::letter_error::LetterError;

/// Sender and reply address of an email. The provider's settings give the defaults, and a send may override them.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `From` header, and the sender of the envelope.
    pub from: Mailbox,
    /// `Reply-To` header.
    pub reply_to: Option<Mailbox>,
    /// Senders that a send may set in place of `from`.
    pub allowed: AllowedSenders,
}

/// Senders that a send may set, according to `allowedFrom` in the provider's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSenders {
    /// None if `allowedFrom` is absent. A send may then set any address in the domain of the provider's sender.
    listed: Option<Vec<AllowedSender>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AllowedSender {
    Any,
    /// A domain in lower case, as A-labels.
    Domain(String),
    Address(EmailAddress),
}

impl AllowedSenders {
    /// Reads `allowedFrom`. An entry is an address, `@` with a domain, or `*` for every sender. Returns None if an
    /// entry is invalid.
    pub(crate) fn read(entries: &[Value]) -> Option<AllowedSenders> {
        let listed: Option<Vec<AllowedSender>> = entries.iter().map(AllowedSender::read).collect();
        Some(AllowedSenders { listed: Some(listed?) })
    }

    fn allows(&self, own: &EmailAddress, from: &EmailAddress) -> bool {
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

impl Identity {
    /// Returns the identity for one email. Each value comes from the first of these that sets it: the send's overrides
    /// for this provider (`_config`), the send's options for the email channel, the provider's settings.
    pub(crate) fn of_send(
        &self,
        options: &EmailOptions,
        config: Option<&Object>,
    ) -> Result<Identity, LetterError> {
        let chosen = |member: &str, of_channel: &'_ Option<String>| {
            let of_provider = config.and_then(|config| config.get(member)).filter(|value| !value.is_null());
            match of_provider {
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(LetterError::Sender),
                None => Ok(of_channel.clone()),
            }
        };
        let mut identity = self.clone();
        if let Some(from) = chosen("from", &options.from)? {
            let from = EmailAddress::parse(&from).map_err(|_| LetterError::Sender)?;
            let own = EmailAddress::parse(self.from.email.as_ref()).map_err(|_| LetterError::Sender)?;
            if !self.allowed.allows(&own, &from) {
                return Err(LetterError::SenderNotAllowed);
            }
            identity.from.email = address::of(&from);
        }
        if let Some(name) = chosen("fromName", &options.from_name)? {
            if name.contains(['\r', '\n', '\0']) || name.chars().count() > MAX_SENDER {
                return Err(LetterError::Sender);
            }
            identity.from.name = Some(name);
        }
        if let Some(reply_to) = chosen("replyTo", &options.reply_to)? {
            identity.reply_to = Some(address::parse(&reply_to).ok_or(LetterError::Sender)?.into());
        }
        Ok(identity)
    }
}
