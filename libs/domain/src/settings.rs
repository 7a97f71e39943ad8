//! Reads the settings of a provider and reports every problem at once. The problems never quote a value, because it may be a secret.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde_json::Value;
use url::{Host, Url};

use crate::Problem;
use crate::fields::Fields;

/// Length in bytes.
const LONGEST: usize = 4_096;
/// Multi-line text, such as certificates in PEM format, in bytes.
const LONGEST_LINES: usize = 262_144;

/// Members that are null or blank texts count as missing.
#[derive(Debug)]
pub struct SettingsReader {
    fields: Fields,
    problems: Vec<Problem>,
}

impl SettingsReader {
    /// Fails if the settings are not an object.
    pub fn open(settings: &Value) -> Result<SettingsReader, Vec<Problem>> {
        SettingsReader::open_at("settings", settings.clone())
    }

    fn open_at(path: &str, settings: Value) -> Result<SettingsReader, Vec<Problem>> {
        let mut problems = Vec::new();
        // Refuse an empty array, which [`Fields::open`] would accept as an empty object.
        let settings = if settings.is_array() { Value::Null } else { settings };
        match Fields::open(path, settings, &mut problems) {
            Some(fields) => Ok(SettingsReader { fields, problems }),
            None => Err(problems),
        }
    }

    /// Lends the parts to functions that also read request bodies.
    pub fn fields(&mut self) -> (&mut Fields, &mut Vec<Problem>) {
        (&mut self.fields, &mut self.problems)
    }

    pub fn problem(&mut self, member: &str, code: &'static str, says: &str) {
        let path = self.fields.path(member);
        self.problems.push(Problem::new(&path, code, format!("{path} {says}")));
    }

    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    #[must_use]
    pub fn has(&self, member: &str) -> bool {
        self.fields.has(member)
    }

    /// Control characters are refused.
    pub fn text(&mut self, member: &str) -> Option<String> {
        let text = self.fields.string(member, LONGEST, &mut self.problems)?;
        if text.chars().any(char::is_control) {
            self.problem(member, "invalid", "must not contain control characters");
            return None;
        }
        (!text.trim().is_empty()).then_some(text)
    }

    /// Line breaks are allowed.
    pub fn lines(&mut self, member: &str) -> Option<String> {
        let text = self.fields.string(member, LONGEST_LINES, &mut self.problems)?;
        (!text.trim().is_empty()).then_some(text)
    }

    pub fn required_as<T>(
        &mut self,
        member: &str,
        read: impl FnOnce(&mut SettingsReader, &str) -> Option<T>,
    ) -> Option<T> {
        let problems = self.problems.len();
        let value = read(self, member);
        if value.is_none() && self.problems.len() == problems {
            self.problem(member, "required", "is required");
        }
        value
    }

    pub fn required(&mut self, member: &str) -> Option<String> {
        self.required_as(member, SettingsReader::text)
    }

    pub fn take(&mut self, member: &str) -> Option<Value> {
        self.fields.take(member)
    }

    /// Reads an `http` or `https` URL.
    pub fn url(&mut self, member: &str) -> Option<Url> {
        let text = self.text(member)?;
        let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
        if url.is_none() {
            let says = "must be a URL that begins with https:// or http://, without a login";
            self.problem(member, "invalid", says);
        }
        url
    }

    pub fn choice<T: Copy>(&mut self, member: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(member)?;
        let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            self.problem(member, "invalid", &format!("must be one of {}", words.join(", ")));
        }
        found
    }

    /// A missing member means the first word.
    pub fn choice_or_first<T: Copy>(&mut self, member: &str, known: &[(&str, T)]) -> Option<T> {
        let problems = self.problems.len();
        let chosen = self.choice(member, known);
        chosen.or_else(|| known.first().filter(|_| self.problems.len() == problems).map(|(_, value)| *value))
    }

    pub fn number(&mut self, member: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let number = self.fields.whole_number(member, &mut self.problems)?;
        if !range.contains(&number) {
            let says = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.problem(member, "invalid", &says);
            return None;
        }
        Some(number)
    }

    pub fn number_or(&mut self, member: &str, default: i64, range: RangeInclusive<i64>) -> Option<i64> {
        if self.has(member) { self.number(member, range) } else { Some(default) }
    }

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

    pub fn list(&mut self, member: &str) -> Vec<Value> {
        self.fields.array(member, &mut self.problems).unwrap_or_default()
    }

    pub fn object<T>(
        &mut self,
        member: &str,
        read: impl FnOnce(&mut SettingsReader) -> Option<T>,
    ) -> Option<T> {
        let value = self.fields.take(member)?;
        let read = SettingsReader::open_at(&self.fields.path(member), value).and_then(|mut reader| {
            let value = read(&mut reader);
            reader.finish(value)
        });
        read.map_err(|problems| self.problems.extend(problems)).ok()
    }

    /// Returns the settings if there is no problem and no unknown member.
    pub fn finish<T>(mut self, settings: Option<T>) -> Result<T, Vec<Problem>> {
        for member in self.fields.keys() {
            self.problem(&member, "unknown_member", "is not known");
        }
        match settings {
            Some(settings) if self.problems.is_empty() => Ok(settings),
            _ => Err(self.problems),
        }
    }
}
