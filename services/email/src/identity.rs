use domain::EmailAddress;
use domain::allowed_senders::AllowedSenders;
use domain::content::{EmailOptions, Object};
use domain::request::MAX_SENDER;
use lettre::message::Mailbox;
use serde_json::Value;

use crate::address;
use crate::letter_error::LetterError;

/// Sender and reply address of an email. The provider's settings give the defaults, and a send may override them.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `From` header, and the sender of the envelope.
    pub from: Mailbox,
    pub reply_to: Option<Mailbox>,
    /// Senders that a send may set in place of `from`.
    pub allowed: AllowedSenders,
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
