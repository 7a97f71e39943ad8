//! The settings of a provider of kind `smtp`.

use std::net::IpAddr;

use domain::Problem;
use lettre::Address;
use lettre::message::Mailbox;
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::address;

/// The kind of provider that these settings are for.
pub const KIND: &str = "smtp";
/// The members that are kept encrypted and never shown.
pub const SECRETS: &[&str] = &["password"];

const MEMBERS: [&str; 8] =
    ["host", "port", "security", "username", "password", "from", "fromName", "replyTo"];

/// How to reach a server, and in whose name.
#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// DNS name or IP address.
    pub host: String,
    /// TCP port, not 0.
    pub port: u16,
    /// What protects the connection.
    pub security: Security,
    /// What to log in with, where the server wants it.
    pub login: Option<Login>,
    /// `From` header, and the sender of the envelope.
    pub from: Mailbox,
    /// `Reply-To` header.
    pub reply_to: Option<Mailbox>,
}

/// What protects a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Nothing.
    None,
    /// TLS after STARTTLS (RFC 3207); a server without it is not used.
    StartTls,
    /// TLS from the first byte (RFC 8314).
    Tls,
}

/// User name and password of AUTH PLAIN or LOGIN.
#[derive(Clone, Debug)]
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: SecretString,
}

impl SmtpSettings {
    /// Reads settings as `tidings provider set` takes them.
    ///
    /// # Errors
    /// Every problem found, none of which repeats a secret.
    pub fn parse(settings: &Value) -> Result<Self, Vec<Problem>> {
        let Some(members) = settings.as_object() else {
            return Err(vec![Problem::new("settings", "wrong_type", "settings must be an object")]);
        };
        let mut reader = Reader { members, problems: Vec::new() };
        reader.refuse_unknown();
        let host = reader.host();
        let port = reader.port();
        let security = reader.security();
        let login = reader.login();
        let from = reader.address("from", true);
        let from_name = reader.text("fromName", false);
        let reply_to = reader.address("replyTo", false);
        match (host, port, security, from) {
            (Some(host), Some(port), Some(security), Some(from)) if reader.problems.is_empty() => {
                Ok(SmtpSettings {
                    host,
                    port,
                    security,
                    login,
                    from: Mailbox::new(from_name, from),
                    reply_to: reply_to.map(Mailbox::from),
                })
            }
            _ => Err(reader.problems),
        }
    }
}

struct Reader<'a> {
    members: &'a Map<String, Value>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, member: &str, code: &'static str, says: &str) {
        self.problems.push(Problem::new(
            format!("settings.{member}"),
            code,
            format!("settings.{member} {says}"),
        ));
    }

    fn refuse_unknown(&mut self) {
        for member in self.members.keys() {
            if !MEMBERS.contains(&member.as_str()) {
                self.problem(member, "unknown", &format!("is not known; there are {}", MEMBERS.join(", ")));
            }
        }
    }

    /// A string without line breaks; null and the empty string count as absent.
    fn text(&mut self, member: &str, required: bool) -> Option<String> {
        match self.members.get(member) {
            Some(Value::String(text)) if text.contains(['\r', '\n', '\0']) => {
                self.problem(member, "invalid", "must not contain CR, LF or NUL");
                None
            }
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

    fn host(&mut self) -> Option<String> {
        let host = self.text("host", true)?;
        let name = rustls::pki_types::ServerName::try_from(host.as_str());
        if host.parse::<IpAddr>().is_err() && name.is_err() {
            self.problem("host", "invalid", "must be a DNS name or an IP address, without a port");
            return None;
        }
        Some(host)
    }

    fn port(&mut self) -> Option<u16> {
        let given = self.members.get("port").filter(|port| !port.is_null());
        let port =
            given.and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        match (given, port) {
            (None, _) => self.problem("port", "required", "is required"),
            (Some(_), None) => self.problem("port", "invalid", "must be a number from 1 to 65535"),
            (Some(_), Some(_)) => {}
        }
        port
    }

    fn security(&mut self) -> Option<Security> {
        match self.text("security", true)?.as_str() {
            "none" => Some(Security::None),
            "starttls" => Some(Security::StartTls),
            "tls" => Some(Security::Tls),
            _ => {
                self.problem("security", "invalid", "must be none, starttls or tls");
                None
            }
        }
    }

    fn login(&mut self) -> Option<Login> {
        match (self.text("username", false), self.text("password", false)) {
            (Some(username), Some(password)) => Some(Login { username, password: password.into() }),
            (Some(_), None) => {
                self.problem("password", "required", "is required beside username");
                None
            }
            (None, Some(_)) => {
                self.problem("username", "required", "is required beside password");
                None
            }
            (None, None) => None,
        }
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
