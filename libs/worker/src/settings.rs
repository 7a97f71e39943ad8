//! Reads the settings of a provider and reports every problem at once; no problem repeats a value.

use std::net::IpAddr;

use domain::fields::Fields;
use domain::problem::joined;
use domain::{Answer, Outcome, Problem};
use reqwest::Url;
use secrecy::SecretString;
use serde_json::Value;
use url::Host;

/// Longest text of a member, in bytes.
const LONGEST: usize = 4_096;
/// Longest multi-line text, such as a key in PEM, in bytes.
const LONGEST_LINES: usize = 32_768;

/// Returns the answer for a provider with invalid settings: the provider is paused.
#[must_use]
pub fn unusable(problems: &[Problem]) -> Answer {
    Answer::new(Outcome::PauseProvider, "settings", joined(problems))
}

/// Reader of a provider's settings.
#[derive(Debug)]
pub struct Reader {
    fields: Fields,
    problems: Vec<Problem>,
}

impl Reader {
    /// Opens settings for reading.
    ///
    /// # Errors
    /// The settings are not an object.
    pub fn open(settings: &Value) -> Result<Reader, Vec<Problem>> {
        let mut problems = Vec::new();
        match Fields::open("settings", settings.clone(), &mut problems) {
            Some(fields) => Ok(Reader { fields, problems }),
            None => Err(problems),
        }
    }

    /// Reports a problem with a member.
    pub fn problem(&mut self, member: &str, code: &'static str, says: &str) {
        let path = self.fields.path(member);
        self.problems.push(Problem::new(&path, code, format!("{path} {says}")));
    }

    /// Returns true if no problem was found so far.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Reads a text without control characters; null and the empty string count as missing.
    pub fn text(&mut self, member: &str) -> Option<String> {
        let text = self.fields.string(member, LONGEST, &mut self.problems)?;
        if text.chars().any(char::is_control) {
            self.problem(member, "invalid", "must not contain control characters");
            return None;
        }
        (!text.trim().is_empty()).then_some(text)
    }

    /// Reads a text that may have line breaks.
    pub fn lines(&mut self, member: &str) -> Option<String> {
        let text = self.fields.string(member, LONGEST_LINES, &mut self.problems)?;
        (!text.trim().is_empty()).then_some(text)
    }

    /// Reads a required text.
    pub fn required(&mut self, member: &str) -> Option<String> {
        let problems = self.problems.len();
        let text = self.text(member);
        if text.is_none() && self.problems.len() == problems {
            self.problem(member, "required", "is required");
        }
        text
    }

    /// Reads a member of any type.
    pub fn take(&mut self, member: &str) -> Option<Value> {
        self.fields.take(member)
    }

    /// Reads a secret text.
    pub fn secret(&mut self, member: &str) -> Option<SecretString> {
        self.text(member).map(SecretString::from)
    }

    /// Reads an `http` or `https` URL.
    pub fn url(&mut self, member: &str) -> Option<Url> {
        let text = self.text(member)?;
        let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
        if url.is_none() {
            self.problem(
                member,
                "invalid",
                "must be a URL that begins with https:// or http://, without a login",
            );
        }
        url
    }

    /// Reads one of the known words. A missing member means the first word.
    pub fn choice<T: Copy>(&mut self, member: &str, known: &[(&str, T)]) -> Option<T> {
        let Some(text) = self.text(member) else {
            return known.first().map(|(_, value)| *value);
        };
        let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            self.problem(member, "invalid", &format!("must be one of {}", words.join(", ")));
        }
        found
    }

    /// Reads a whole number within `range`; `default` if the member is missing.
    pub fn number(
        &mut self,
        member: &str,
        default: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let problems = self.problems.len();
        let number = match self.fields.whole_number(member, &mut self.problems) {
            None if self.problems.len() > problems => return None,
            None => default,
            Some(number) => number,
        };
        if !range.contains(&number) {
            let says = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.problem(member, "invalid", &says);
            return None;
        }
        Some(number)
    }

    /// Reads a boolean; `default` if the member is missing.
    pub fn flag(&mut self, member: &str, default: bool) -> bool {
        self.fields.flag(member, &mut self.problems).unwrap_or(default)
    }

    /// Reads a required DNS name or IP address.
    pub fn host(&mut self, member: &str) -> Option<String> {
        let host = self.required(member)?;
        if host.parse::<IpAddr>().is_err() && Host::parse(&host).is_err() {
            self.problem(member, "invalid", "must be a DNS name or an IP address, without a port");
            return None;
        }
        Some(host)
    }

    /// Reads an object whose members are strings.
    pub fn texts(&mut self, member: &str) -> Vec<(String, String)> {
        let members = self.fields.free_object(member, &mut self.problems).unwrap_or_default();
        let mut texts = Vec::with_capacity(members.len());
        for (name, value) in members {
            match value {
                Value::String(text) => texts.push((name, text)),
                _ => self.problem(&format!("{member}.{name}"), "invalid_type", "must be a string"),
            }
        }
        texts
    }

    /// Reads an array.
    pub fn list(&mut self, member: &str) -> Vec<Value> {
        self.fields.array(member, &mut self.problems).unwrap_or_default()
    }

    /// Returns the settings if there is no problem and no unknown member.
    ///
    /// # Errors
    /// Every problem.
    pub fn finish<T>(mut self, settings: Option<T>) -> Result<T, Vec<Problem>> {
        for member in self.fields.rest().keys() {
            let path = format!("settings.{member}");
            self.problems.push(Problem::new(&path, "unknown", format!("{path} is not known")));
        }
        match settings {
            Some(settings) if self.problems.is_empty() => Ok(settings),
            _ => Err(self.problems),
        }
    }
}
