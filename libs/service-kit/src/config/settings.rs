//! Settings from a file and from environment variables, as text by dotted key. A setting is checked when it is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::problem::{ConfigError, Origin, Problem};
use crate::{ServerUrl, likeness};

const PREFIX: &str = "TIDINGS_";
/// Variables that only tests use; they are not settings.
const TEST_PREFIX: &str = "TIDINGS_TEST_";
/// Variables without the prefix `TIDINGS_` that apply if their key is not set.
const FALLBACKS: [(&str, &str); 2] = [("DATABASE_URL", "database.url"), ("NATS_URL", "nats.url")];
/// Variables that name a file, each with the variable whose value the file contains. Orchestrators mount secrets as such files.
const VALUE_FILES: [(&str, &str); 5] = [
    ("DATABASE_URL_FILE", "DATABASE_URL"),
    ("NATS_URL_FILE", "NATS_URL"),
    ("TIDINGS_DATABASE__URL_FILE", "TIDINGS_DATABASE__URL"),
    ("TIDINGS_NATS__URL_FILE", "TIDINGS_NATS__URL"),
    ("TIDINGS_OTLP__ENDPOINT_FILE", "TIDINGS_OTLP__ENDPOINT"),
];
/// In bytes: enough for the URLs of all servers of a cluster.
const LONGEST_VALUE_FILE: u64 = 65_536;

#[derive(Default)]
pub(super) struct Settings {
    given: BTreeMap<String, (Value, Origin)>,
    taken: BTreeMap<&'static str, Origin>,
    problems: Vec<Problem>,
}

enum Value {
    One(String),
    Many(Vec<String>),
    /// Only the name of an empty table is checked.
    Section,
}

impl Settings {
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            line: 1 + error.span().map_or(0, |span| lines_before(&text, span.start)),
            message: error.message().to_owned(),
        })?;
        self.add_table("", table, &Origin::File(path.to_owned()));
        Ok(())
    }

    fn add_table(&mut self, parent: &str, table: toml::Table, origin: &Origin) {
        for (name, value) in table {
            let key = if parent.is_empty() { name } else { format!("{parent}.{name}") };
            let value = match value {
                toml::Value::Table(table) if !table.is_empty() => {
                    self.add_table(&key, table, origin);
                    continue;
                }
                toml::Value::Table(_) => Value::Section,
                toml::Value::Array(items) => Value::Many(items.into_iter().map(text).collect()),
                scalar => Value::One(text(scalar)),
            };
            self.given.insert(key, (value, origin.clone()));
        }
    }

    pub(super) fn add_variables(&mut self, variables: &[(OsString, OsString)]) {
        let mut fallbacks = Vec::new();
        for (name, value) in variables {
            let Some(name) = name.to_str() else { continue };
            let file = VALUE_FILES.iter().find(|(variable, _)| *variable == name);
            let target = file.map_or(name, |(_, target)| target);
            let fallback = FALLBACKS.iter().find(|(variable, _)| *variable == target).map(|(_, key)| *key);
            let is_key = name.starts_with(PREFIX)
                && !name.starts_with(TEST_PREFIX)
                && !super::OF_COMMANDS.contains(&name);
            if fallback.is_none() && !is_key {
                continue;
            }
            let origin = Origin::Variable(name.to_owned());
            let key = fallback.map_or_else(|| key_of(target), str::to_owned);
            let is_twice = file.is_some() && variables.iter().any(|(other, _)| other == target);
            let value = match (value.to_str(), file) {
                (None, _) => Err("is not UTF-8".to_owned()),
                (Some(_), Some(_)) if is_twice => Err(format!("{target} is set too; remove one of them")),
                (Some(path), Some(_)) => value_in(Path::new(path)),
                (Some(value), None) => Ok(value.to_owned()),
            };
            match value {
                Err(advice) => self.problems.push(Problem { key, origin, value: None, advice }),
                Ok(value) if fallback.is_some() => fallbacks.push((key, value, origin)),
                Ok(value) => drop(self.given.insert(key, (Value::One(value), origin))),
            }
        }
        for (key, value, origin) in fallbacks {
            self.given.entry(key).or_insert((Value::One(value), origin));
        }
    }

    pub(super) fn number<T>(&mut self, key: &'static str, default: T, range: RangeInclusive<T>) -> T
    where
        T: FromStr + PartialOrd + Display,
    {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        self.one(key, default, |text| text.parse().ok().filter(|number| range.contains(number)), &wanted)
    }

    pub(super) fn duration(
        &mut self,
        key: &'static str,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let [least, most] = [range.start(), range.end()].map(|limit| humantime::format_duration(*limit));
        let wanted = format!("a time with a unit, from {least} to {most}");
        let parse = |text: &str| humantime::parse_duration(text).ok().filter(|time| range.contains(time));
        self.one(key, default, parse, &wanted)
    }

    pub(super) fn address(&mut self, key: &'static str, default: SocketAddr) -> SocketAddr {
        self.one(key, default, |text| text.parse().ok(), "an IP address and a port, such as 0.0.0.0:8080")
    }

    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.one(key, None, |text| (!text.is_empty()).then(|| Some(PathBuf::from(text))), "a file's path")
    }

    /// A URL counts as a secret, because it may contain a password.
    pub(super) fn url(&mut self, key: &'static str, schemes: &[&str]) -> Option<ServerUrl> {
        let (value, origin) = self.take(key)?;
        let wanted = match value {
            Value::One(text) => match text.parse::<ServerUrl>() {
                Ok(url) if schemes.contains(&url.scheme()) => return Some(url),
                Ok(url) => format!("begins with {}://, and must begin with {}://", url.scheme(), schemes[0]),
                Err(error) => format!("is {error}"),
            },
            Value::Many(_) | Value::Section => "must be one text".to_owned(),
        };
        self.problem(key, None, origin, wanted);
        None
    }

    pub(super) fn one<T>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
        wanted: &str,
    ) -> T {
        let Some((value, origin)) = self.take(key) else {
            return default;
        };
        let shown = match value {
            Value::One(text) => match parse(&text) {
                Some(value) => return value,
                None => text,
            },
            Value::Many(texts) => texts.join(","),
            Value::Section => "[table]".to_owned(),
        };
        self.problem(key, Some(shown), origin, format!("must be {wanted}"));
        default
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        self.one(key, default, |text| text.parse().ok(), "true or false")
    }

    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        default: Vec<T>,
        parse: impl Fn(&str) -> Option<T>,
        wanted: &str,
    ) -> Vec<T> {
        let Some((value, origin)) = self.take(key) else {
            return default;
        };
        let texts = match value {
            Value::One(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
            Value::Many(texts) => texts,
            Value::Section => Vec::new(),
        };
        match texts.iter().map(|text| parse(text)).collect::<Option<Vec<T>>>() {
            Some(values) if !values.is_empty() => values,
            _ => {
                let advice = format!("must be a list of {wanted}");
                self.problem(key, Some(texts.join(",")), origin, advice);
                default
            }
        }
    }

    pub(super) fn list_or_none<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        wanted: &str,
    ) -> Vec<T> {
        if let Some((Value::Many(texts), _)) = self.given.get(key)
            && texts.is_empty()
        {
            self.take(key);
            return Vec::new();
        }
        self.list(key, Vec::new(), parse, wanted)
    }

    /// The key must have been read before.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.taken.get(key).is_some_and(|origin| !matches!(origin, Origin::Default))
    }

    fn take(&mut self, key: &'static str) -> Option<(Value, Origin)> {
        let given = self.given.remove(key);
        let origin = given.as_ref().map_or(Origin::Default, |(_, origin)| origin.clone());
        self.taken.insert(key, origin);
        given
    }

    pub(super) fn refuse(&mut self, key: &str, value: Option<String>, advice: &str) {
        let origin = self.taken.get(key).cloned().unwrap_or(Origin::Default);
        self.problem(key, value, origin, advice.to_owned());
    }

    fn problem(&mut self, key: &str, value: Option<String>, origin: Origin, advice: String) {
        self.problems.push(Problem { key: key.to_owned(), origin, value, advice });
    }

    /// Reports unknown keys. A key is unknown if it was not read, so every known key must have been read before.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        for (key, (value, origin)) in std::mem::take(&mut self.given) {
            let section = format!("{key}.");
            if matches!(value, Value::Section) && self.taken.keys().any(|known| known.starts_with(&section)) {
                continue;
            }
            let advice = match self.nearest(&key, &origin) {
                Some(known) => format!("is not a key; did you mean {known}?"),
                None => "is not a key".to_owned(),
            };
            self.problem(&key, None, origin, advice);
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(self.problems)) }
    }

    fn nearest(&self, key: &str, origin: &Origin) -> Option<String> {
        let nearest = likeness::nearest(key, self.taken.keys().copied())?;
        Some(match origin {
            Origin::Variable(_) => variable_of(nearest),
            Origin::File(_) | Origin::Default => nearest.to_owned(),
        })
    }
}

fn value_in(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_VALUE_FILE).read_to_string(&mut text));
    match read {
        Err(error) => Err(format!("names the file {}, which cannot be read: {error}", path.display())),
        Ok(_) if text.trim().is_empty() => Err(format!("names the file {}, which is empty", path.display())),
        Ok(_) => Ok(text.trim().to_owned()),
    }
}

fn text(value: toml::Value) -> String {
    match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Datetime(time) => time.to_string(),
        toml::Value::Array(_) => "[list]".to_owned(),
        toml::Value::Table(_) => "[table]".to_owned(),
    }
}

fn lines_before(text: &str, end: usize) -> usize {
    text.bytes().take(end).filter(|byte| *byte == b'\n').count()
}

fn key_of(variable: &str) -> String {
    variable.strip_prefix(PREFIX).unwrap_or(variable).to_ascii_lowercase().replace("__", ".")
}

fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', "__"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    /// Includes keys that are commented out (`#key = …`).
    fn keys(text: &str) -> Vec<String> {
        let mut section = String::new();
        let mut keys = Vec::new();
        for line in text.lines() {
            let line = line.strip_prefix('#').unwrap_or(line);
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = format!("{name}.");
            } else if let Some((name, _)) = line.split_once(" = ").filter(|(name, _)| !name.contains(' ')) {
                keys.push(format!("{section}{name}"));
            }
        }
        keys.sort_unstable();
        keys
    }

    #[test]
    fn the_shipped_file_names_every_key() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/config/tidings.toml");
        let mut settings = Settings::default();
        Config::read(&mut settings);
        let known: Vec<_> = settings.taken.into_keys().collect();
        assert_eq!(keys(&std::fs::read_to_string(path).unwrap()), known);
    }
}
