//! In whose name an email goes out.

use domain::content::{EmailOptions, Object};
use lettre::message::Mailbox;
use serde_json::Value;

use crate::address;
use crate::letter::Unsendable;

/// Sender and address for answers, as the provider has them unless a send says otherwise.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `From` header, and the sender of the envelope.
    pub from: Mailbox,
    /// `Reply-To` header.
    pub reply_to: Option<Mailbox>,
}

impl Identity {
    /// The identity of one email: what the send says of this provider (`_config`) counts before what it says of the
    /// channel, and that before the provider's own.
    pub(crate) fn of_send(
        &self,
        options: &EmailOptions,
        config: Option<&Object>,
    ) -> Result<Identity, Unsendable> {
        let told = |member: &str, of_channel: &'_ Option<String>| {
            let of_provider = config.and_then(|config| config.get(member)).filter(|value| !value.is_null());
            match of_provider {
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(Unsendable::Sender),
                None => Ok(of_channel.clone()),
            }
        };
        let mut identity = self.clone();
        if let Some(from) = told("from", &options.from)? {
            identity.from.email = address::parse(&from).ok_or(Unsendable::Sender)?;
        }
        if let Some(name) = told("fromName", &options.from_name)? {
            if name.contains(['\r', '\n', '\0']) {
                return Err(Unsendable::Sender);
            }
            identity.from.name = Some(name);
        }
        if let Some(reply_to) = told("replyTo", &options.reply_to)? {
            identity.reply_to = Some(address::parse(&reply_to).ok_or(Unsendable::Sender)?.into());
        }
        Ok(identity)
    }
}
