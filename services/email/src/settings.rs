use domain::EmailAddress;
use domain::allowed_senders::AllowedSenders;
use domain::request::MAX_SENDER;
use domain::settings::SettingsReader;
use lettre::Address;
use lettre::message::Mailbox;

use crate::address;
use crate::identity::Identity;

/// Reads a text, and reports a problem if it contains CR, LF or NUL.
pub(crate) fn line(reader: &mut SettingsReader, member: &str) -> Option<String> {
    let text = reader.lines(member)?;
    if text.contains(['\r', '\n', '\0']) {
        reader.problem(member, "invalid", "must not contain CR, LF or NUL");
        return None;
    }
    Some(text)
}

pub(crate) fn identity(reader: &mut SettingsReader) -> Option<Identity> {
    let from = reader.required_as("from", email_address);
    let name = line(reader, "fromName");
    if name.as_ref().is_some_and(|name| name.chars().count() > MAX_SENDER) {
        reader.problem("fromName", "invalid", &format!("must have at most {MAX_SENDER} characters"));
    }
    let reply_to = email_address(reader, "replyTo");
    let allowed = allowed_from(reader)?;
    Some(Identity { from: Mailbox::new(name, from?), reply_to: reply_to.map(Mailbox::from), allowed })
}

fn allowed_from(reader: &mut SettingsReader) -> Option<AllowedSenders> {
    let Some(value) = reader.take("allowedFrom") else { return Some(AllowedSenders::default()) };
    let allowed = value.as_array().and_then(|entries| AllowedSenders::read(entries));
    if allowed.is_none() {
        let says =
            "must be a list of addresses and domains such as \"@example.com\", or [\"*\"] for every sender";
        reader.problem("allowedFrom", "invalid", says);
    }
    allowed
}

fn email_address(reader: &mut SettingsReader, member: &str) -> Option<Address> {
    let text = line(reader, member)?;
    match EmailAddress::parse(&text) {
        Ok(address) => Some(address::of(&address)),
        Err(problem) => {
            reader.problem(member, "invalid", &problem.to_string());
            None
        }
    }
}
