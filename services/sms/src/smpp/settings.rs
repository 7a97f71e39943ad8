use std::time::Duration;

use domain::Problem;
use domain::receipt::IdNotation;
use domain::settings::SettingsReader;
use domain::sms::keyword::AddedKeywords;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::settings::sender;

/// Maximum length of system_id in octets, without its terminator (section 5.2.1).
const LONGEST_SYSTEM_ID: usize = 15;
/// Maximum length of password in octets, without its terminator (section 5.2.2).
const LONGEST_PASSWORD: usize = 8;
/// Maximum length of system_type in octets, without its terminator (section 5.2.3).
const LONGEST_SYSTEM_TYPE: usize = 12;

#[derive(Clone, Debug)]
pub struct SmppSettings {
    pub host: String,
    pub port: u16,
    /// True for TLS from the first byte; false for an unencrypted connection.
    pub tls: bool,
    /// Trusted certificate authorities. If there are none, the authorities of the system are trusted.
    pub authorities: Vec<CertificateDer<'static>>,
    pub system_id: String,
    pub password: SecretString,
    pub system_type: String,
    pub from: String,
    /// Maximum number of submissions that wait for a response.
    pub window: usize,
    /// Silence after which an enquire_link is sent.
    pub enquire_link: Duration,
    pub alphabets: Alphabets,
    pub concatenation: Concatenation,
    pub receipts: bool,
    pub receipt_ids: IdNotation,
    /// Calling code of senders whose numbers have none.
    pub country_code: Option<String>,
    pub keywords: AddedKeywords,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabets {
    /// GSM 7-bit if it has all characters of the text, otherwise UCS-2.
    Both,
    /// Always UCS-2, for a message centre whose default alphabet is not GSM 7-bit.
    Ucs2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concatenation {
    /// Split into parts, each numbered by a user data header (3GPP TS 23.040, section 9.2.3.24.1).
    Udh,
    /// Unsplit, in the parameter message_payload.
    Payload,
}

impl SmppSettings {
    /// Parses settings in the format of `tidings provider set`. The error lists every problem, without secrets.
    pub fn parse(settings: &Value) -> Result<SmppSettings, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let host = reader.host("host");
        let port = reader.number_or("port", 2775, 1..=65_535).and_then(|port| u16::try_from(port).ok());
        let tls = reader.choice_or_first("security", &[("none", false), ("tls", true)]);
        let authorities = authorities(&mut reader);
        let system_id = reader.required("systemId");
        let password = reader.required("password").map(SecretString::from);
        let system_type = reader.text("systemType").unwrap_or_default();
        fits(&mut reader, "systemId", system_id.as_deref(), LONGEST_SYSTEM_ID);
        let given = password.as_ref().map(|password| password.expose_secret().to_owned());
        fits(&mut reader, "password", given.as_deref(), LONGEST_PASSWORD);
        fits(&mut reader, "systemType", Some(&system_type), LONGEST_SYSTEM_TYPE);
        let from = reader.required("from");
        let from = sender(&mut reader, "from", from);
        let window = reader.number_or("window", 10, 1..=1000).and_then(|window| usize::try_from(window).ok());
        let enquire = reader.number_or("enquireLinkSeconds", 30, 1..=600);
        let enquire_link = enquire.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let alphabets =
            reader.choice_or_first("alphabet", &[("auto", Alphabets::Both), ("ucs2", Alphabets::Ucs2)]);
        let concatenation = reader.choice_or_first(
            "concatenation",
            &[("udh", Concatenation::Udh), ("payload", Concatenation::Payload)],
        );
        let receipts = reader.flag("receipts", true);
        let receipt_ids = reader.choice_or_first("receiptIds", &IdNotation::WORDS);
        let country_code = country_code(&mut reader);
        let keywords = AddedKeywords::read(&mut reader);
        let settings = (|| {
            Some(SmppSettings {
                host: host?,
                port: port?,
                tls: tls?,
                authorities,
                system_id: system_id?,
                password: password?,
                system_type,
                from: from?,
                window: window?,
                enquire_link: enquire_link?,
                alphabets: alphabets?,
                concatenation: concatenation?,
                receipts,
                receipt_ids: receipt_ids?,
                country_code,
                keywords,
            })
        })();
        reader.finish(settings)
    }
}

fn authorities(reader: &mut SettingsReader) -> Vec<CertificateDer<'static>> {
    let Some(pem) = reader.lines("caCertificate") else { return Vec::new() };
    match CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>() {
        Ok(authorities) if !authorities.is_empty() => authorities,
        _ => {
            reader.problem("caCertificate", "invalid", "must be one or more certificates as PEM");
            Vec::new()
        }
    }
}

fn country_code(reader: &mut SettingsReader) -> Option<String> {
    let code = reader.text("countryCode")?;
    let is_code = (1..=3).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_digit())
        && !code.starts_with('0');
    if !is_code {
        reader.problem("countryCode", "invalid", "must be a calling code of 1 to 3 digits, such as 49");
        return None;
    }
    Some(code)
}

fn fits(reader: &mut SettingsReader, member: &str, text: Option<&str>, longest: usize) {
    if text.is_some_and(|text| !text.is_ascii() || text.len() > longest) {
        reader.problem(member, "too_long", &format!("must be ASCII with at most {longest} characters"));
    }
}
