//! Parser of a provider's settings. It reports all problems together, and no problem contains a value.

use domain::Problem;
use domain::request::MAX_SENDER;
use lettre::Address;
use lettre::message::Mailbox;
use serde_json::{Map, Value};
use url::Url;

use crate::address;
use crate::identity::{AllowedFrom, Identity};

pub(crate) struct Reader<'a> {
    members: &'a Map<String, Value>,
    /// Prefix of member names in problems.
    path: &'static str,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Opens settings; members other than `known` are problems.
    pub(crate) fn open(settings: &'a Value, known: &[&str]) -> Result<Reader<'a>, Vec<Problem>> {
        Reader::open_at("settings", settings, known)
    }

    /// Opens an object inside the settings like [`Reader::open`].
    pub(crate) fn open_at(
        path: &'static str,
        settings: &'a Value,
        known: &[&str],
    ) -> Result<Reader<'a>, Vec<Problem>> {
        let Some(members) = settings.as_object() else {
            return Err(vec![Problem::new(path, "wrong_type", format!("{path} must be an object"))]);
        };
        let mut reader = Reader { members, path, problems: Vec::new() };
        for member in members.keys().filter(|member| !known.contains(&member.as_str())) {
            reader.problem(member, "unknown", &format!("is unknown; expected {}", known.join(", ")));
        }
        Ok(reader)
    }

    /// Returns the parsed value if there were no problems.
    pub(crate) fn finish<T>(self, read: Option<T>) -> Result<T, Vec<Problem>> {
        match read {
            Some(read) if self.problems.is_empty() => Ok(read),
            _ => Err(self.problems),
        }
    }

    pub(crate) fn problem(&mut self, member: &str, code: &'static str, says: &str) {
        let path = self.path;
        self.problems.push(Problem::new(format!("{path}.{member}"), code, format!("{path}.{member} {says}")));
    }

    pub(crate) fn problems(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    /// Returns a member that is present and not null.
    pub(crate) fn value(&self, member: &str) -> Option<&'a Value> {
        self.members.get(member).filter(|value| !value.is_null())
    }

    /// Reads a string without line breaks; null and the empty string count as absent.
    pub(crate) fn text(&mut self, member: &str, required: bool) -> Option<String> {
        let text = self.lines(member, required)?;
        if text.contains(['\r', '\n', '\0']) {
            self.problem(member, "invalid", "must not contain CR, LF or NUL");
            return None;
        }
        Some(text)
    }

    /// Reads a string that may have several lines.
    pub(crate) fn lines(&mut self, member: &str, required: bool) -> Option<String> {
        match self.members.get(member) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
            None | Some(Value::Null | Value::String(_)) => {
                if required {
                    self.problem(member, "required", "is required");
                }
                None
            }
            Some(_) => {
                self.problem(member, "wrong_type", "must be a string");
                None
            }
        }
    }

    pub(crate) fn url(&mut self, member: &str, required: bool) -> Option<Url> {
        let text = self.text(member, required)?;
        let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(|url| url.has_host() && url.username().is_empty() && url.password().is_none());
        if url.is_none() {
            self.problem(member, "invalid", "must be an http or https URL without user name and password");
        }
        url
    }

    /// Reads `from`, `fromName`, `replyTo` and `allowedFrom`.
    pub(crate) fn identity(&mut self) -> Option<Identity> {
        let from = self.address("from", true);
        let name = self.text("fromName", false);
        if name.as_ref().is_some_and(|name| name.chars().count() > MAX_SENDER) {
            self.problem("fromName", "invalid", &format!("must have at most {MAX_SENDER} characters"));
        }
        let reply_to = self.address("replyTo", false);
        let allowed = self.allowed_from()?;
        Some(Identity { from: Mailbox::new(name, from?), reply_to: reply_to.map(Mailbox::from), allowed })
    }

    fn allowed_from(&mut self) -> Option<AllowedFrom> {
        let Some(value) = self.value("allowedFrom") else { return Some(AllowedFrom::default()) };
        let allowed = value.as_array().and_then(|entries| AllowedFrom::read(entries));
        if allowed.is_none() {
            let says = "must be a list of addresses and domains such as \"@example.com\", or [\"*\"] for every sender";
            self.problem("allowedFrom", "invalid", says);
        }
        allowed
    }

    fn address(&mut self, member: &str, required: bool) -> Option<Address> {
        let text = self.text(member, required)?;
        let address = address::parse(&text);
        if address.is_none() {
            self.problem(member, "invalid", "must be an email address");
        }
        address
    }
}
