use std::net::IpAddr;
use std::sync::Arc;

use domain::Problem;
use domain::settings::SettingsReader;
use rustls::pki_types::ServerName;
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use super::{client_name, tls};
use crate::dkim::Signer;
use crate::identity::Identity;
use crate::settings::{identity, line};

#[derive(Clone, Debug)]
pub struct SmtpSettings {
    pub host: String,
    pub port: u16,
    pub security: Security,
    /// Trusted authorities for the server's certificate, as PEM; None means the authorities that the system trusts.
    pub ca_certificate: Option<String>,
    pub ehlo_name: Option<String>,
    pub login: Option<Login>,
    pub identity: Identity,
    pub(crate) signer: Option<Arc<Signer>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    None,
    /// TLS after STARTTLS (RFC 3207). Connecting fails if the server does not offer STARTTLS.
    StartTls,
    /// TLS from the first byte (RFC 8314).
    Tls,
}

#[derive(Clone, Debug)]
pub struct Login {
    pub username: String,
    pub proof: Proof,
}

#[derive(Clone, Debug)]
pub enum Proof {
    /// A password. If no mechanism is set, the login uses the best one that the server offers.
    Password(SecretString, Option<Mechanism>),
    /// A token (XOAUTH2).
    Token(Token),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// LOGIN. It was never standardized, but some servers offer no other mechanism.
    Login,
}

#[derive(Clone, Debug)]
pub enum Token {
    /// A token from the settings. Tidings cannot renew it: the operator must replace it before it expires.
    Given(SecretString),
    /// Tidings requests access tokens with a refresh token (RFC 6749 section 6).
    Refreshed {
        url: Url,
        client_id: String,
        client_secret: Option<SecretString>,
        refresh_token: SecretString,
    },
}

impl SmtpSettings {
    /// Parses settings in the format of `tidings provider set`. The error lists every problem, without secrets.
    pub fn parse(settings: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let host = host(&mut reader);
        let port = port(&mut reader);
        let security = security(&mut reader);
        let ca_certificate = ca_certificate(&mut reader);
        let ehlo_name = ehlo_name(&mut reader);
        let login = login(&mut reader);
        let identity = identity(&mut reader);
        let signer = reader.object("dkim", Signer::read).map(Arc::new);
        let required = host.zip(port).zip(security).zip(identity);
        reader.finish(required.map(|(((host, port), security), identity)| SmtpSettings {
            host,
            port,
            security,
            ca_certificate,
            ehlo_name,
            login,
            identity,
            signer,
        }))
    }

    pub(crate) fn client_name(&self) -> String {
        let set = self.ehlo_name.clone();
        set.unwrap_or_else(|| client_name::default(self.identity.from.email.domain()))
    }

    pub(crate) fn exposes_login(&self) -> bool {
        self.security == Security::None && self.login.is_some()
    }
}

fn host(reader: &mut SettingsReader) -> Option<String> {
    let host = reader.required("host")?;
    if host.parse::<IpAddr>().is_err() && ServerName::try_from(host.as_str()).is_err() {
        reader.problem("host", "invalid", "must be a DNS name or an IP address, without a port");
        return None;
    }
    Some(host)
}

fn port(reader: &mut SettingsReader) -> Option<u16> {
    let port = reader.required_as("port", |reader, member| reader.number(member, 1..=65_535))?;
    u16::try_from(port).ok()
}

fn security(reader: &mut SettingsReader) -> Option<Security> {
    let known = [("none", Security::None), ("starttls", Security::StartTls), ("tls", Security::Tls)];
    reader.required_as("security", |reader, member| reader.choice(member, &known))
}

fn ca_certificate(reader: &mut SettingsReader) -> Option<String> {
    let pem = reader.lines("caCertificate")?;
    if tls::roots(&pem).is_none() {
        reader.problem("caCertificate", "invalid", "must be one or more certificates as PEM");
        return None;
    }
    Some(pem)
}

fn ehlo_name(reader: &mut SettingsReader) -> Option<String> {
    let name = line(reader, "ehloName")?;
    let parsed = client_name::parse(&name);
    if parsed.is_none() {
        let says = "must be a DNS name such as \"mail.example.com\", or an address in brackets";
        reader.problem("ehloName", "invalid", says);
    }
    parsed
}

/// If `auth` is absent or `auto`, and a token but no password is set, the login uses XOAUTH2.
fn login(reader: &mut SettingsReader) -> Option<Login> {
    let auth = line(reader, "auth");
    let username = line(reader, "username");
    let password = line(reader, "password");
    let token = token(reader);
    let mechanism = match auth.as_deref() {
        None | Some("auto") if token.is_some() && password.is_none() => "xoauth2",
        None | Some("auto") => "auto",
        Some(named @ ("plain" | "login" | "xoauth2")) => named,
        Some(_) => {
            reader.problem("auth", "invalid", "must be auto, plain, login or xoauth2");
            return None;
        }
    };
    let proof = match (mechanism, password, token) {
        ("xoauth2", _, Some(token)) => Proof::Token(token),
        ("xoauth2", _, None) => {
            reader.problem(
                "accessToken",
                "required",
                "is required for xoauth2, unless tokenUrl and refreshToken are set",
            );
            return None;
        }
        ("plain", Some(password), _) => Proof::Password(password.into(), Some(Mechanism::Plain)),
        ("login", Some(password), _) => Proof::Password(password.into(), Some(Mechanism::Login)),
        (_, Some(password), _) => Proof::Password(password.into(), None),
        (named, None, _) => {
            if named != "auto" || username.is_some() {
                reader.problem("password", "required", "is required with username");
            }
            return None;
        }
    };
    if username.is_none() {
        reader.problem("username", "required", "is required to log in");
    }
    Some(Login { username: username?, proof })
}

const SOURCE: [&str; 4] = ["tokenUrl", "clientId", "clientSecret", "refreshToken"];

fn token(reader: &mut SettingsReader) -> Option<Token> {
    let given = line(reader, "accessToken");
    if given.is_some() || !SOURCE.iter().any(|name| reader.has(name)) {
        for name in SOURCE {
            reader.take(name);
        }
        return given.map(|given| Token::Given(given.into()));
    }
    let url = reader.required_as("tokenUrl", SettingsReader::url);
    let client_id = reader.required_as("clientId", line);
    let client_secret = line(reader, "clientSecret");
    let refresh_token = reader.required_as("refreshToken", line);
    Some(Token::Refreshed {
        url: url?,
        client_id: client_id?,
        client_secret: client_secret.map(Into::into),
        refresh_token: refresh_token?.into(),
    })
}
