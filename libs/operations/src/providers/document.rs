//! The JSON document of a provider.

use domain::fields::{Fields, check_plain_json};
use domain::{Channel, Problem};
use serde_json::{Map, Value};

use super::{KnownKind, secret_members};

const DEFAULT_PRIORITY: i32 = 10;
const MOST_PER_SECOND: u32 = 1_000_000;
/// Members that `show` adds to the document. They are accepted so that the output of `show` is valid input of `set`.
const SHOWN: [&str; 3] = ["hasSecret", "version", "updatedAt"];

/// Members of all kinds that decide to which server secrets go, and who on the way can read them.
const DESTINATION: [&str; 8] =
    ["host", "port", "security", "caCertificate", "url", "probeUrl", "baseUrl", "tokenUrl"];
/// Secrets that are sent to no server.
const UNSENT: [&str; 1] = ["dkim.privateKey"];

/// A parsed document. Its settings are checked later, together with the secrets of the provider that it replaces.
#[derive(Debug)]
pub struct Draft {
    kind: &'static KnownKind,
    identifier: String,
    priority: i32,
    enabled: bool,
    max_per_second: Option<u32>,
    settings: Map<String, Value>,
}

/// A valid provider, with its secrets separate from its settings.
#[derive(PartialEq)]
pub(super) struct ProviderDocument {
    pub(super) identifier: String,
    pub(super) channel: Channel,
    pub(super) kind: &'static str,
    pub(super) priority: i32,
    pub(super) enabled: bool,
    /// Maximum number of calls per second that one worker makes.
    pub(super) max_per_second: Option<u32>,
    pub(super) settings: Value,
    /// Secrets, nested as in the settings.
    pub(super) secrets: Map<String, Value>,
    /// Names of secrets that the document contains.
    pub(super) given: Vec<&'static str>,
    /// Names of secrets that the document omits and that stay unchanged.
    pub(super) kept: Vec<&'static str>,
}

impl Draft {
    /// Reads a document. `kinds` are the kinds of providers that this release knows.
    ///
    /// # Errors
    /// Returns all problems of the document, except those of secrets that it omits. The settings of an unknown kind cannot be
    /// checked.
    pub fn read(kinds: &'static [KnownKind], value: Value) -> Result<Draft, Vec<Problem>> {
        let mut problems = Vec::new();
        check_plain_json("", &value, &mut problems);
        let Some(mut fields) = Fields::open("", value, &mut problems) else {
            return Err(problems);
        };
        let identifier = fields.required_identifier("identifier", &mut problems);
        let known = known_kind(kinds, &mut fields, &mut problems);
        let priority = priority(&mut fields, &mut problems);
        let enabled = fields.flag("enabled", &mut problems).unwrap_or(true);
        let max_per_second = max_per_second(&mut fields, &mut problems);
        let settings = fields.free_object("settings", &mut problems).unwrap_or_default();
        for name in SHOWN {
            fields.take(name);
        }
        fields.finish(true, &mut problems);
        // The settings of an unknown kind cannot be checked.
        let Some(kind) = known else { return Err(problems) };
        match identifier {
            Some(identifier) if problems.is_empty() => {
                Ok(Draft { kind, identifier, priority, enabled, max_per_second, settings })
            }
            _ => {
                // The stored secrets are not read for an invalid document. So a missing secret is not reported.
                let absent = absent_secrets(kind, &settings);
                let is_absent = |problem: &Problem| {
                    absent.iter().any(|name| problem.field.strip_prefix("settings.") == Some(name))
                };
                let found = (kind.check)(&Value::Object(settings)).err().unwrap_or_default();
                problems.extend(found.into_iter().filter(|problem| !is_absent(problem)));
                Err(problems)
            }
        }
    }

    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    pub(super) fn is_of(&self, channel: Channel, kind: &str) -> bool {
        (self.kind.channel, self.kind.name) == (channel, kind)
    }

    /// Returns true if the document omits at least one of the secrets that its kind of provider can have.
    pub(super) fn leaves_secrets_out(&self) -> bool {
        !absent_secrets(self.kind, &self.settings).is_empty()
    }

    /// Returns a problem for each secret in `kept` that the document omits although it names another server than the stored settings.
    pub(super) fn misdirected(&self, stored: &Value, kept: &Map<String, Value>) -> Vec<Problem> {
        let moved = DESTINATION.iter().find(|name| self.settings.get(**name) != stored.get(**name));
        let Some(moved) = moved else { return Vec::new() };
        let omitted = absent_secrets(self.kind, &self.settings).into_iter();
        let sent =
            omitted.filter(|name| !UNSENT.contains(name) && secret_members::find(kept, name).is_some());
        let problem = |name: &str| {
            let message = format!(
                "settings.{name} must be given again, because settings.{moved} differs from the stored one"
            );
            Problem::new(format!("settings.{name}"), "required_again", message)
        };
        sent.map(problem).collect()
    }

    /// Adds the secrets in `kept` that the document omits, and then checks the settings. A secret is not kept if the
    /// document sets it to null or omits the object that contains it.
    pub(super) fn complete(&self, kept: &Map<String, Value>) -> Result<ProviderDocument, Vec<Problem>> {
        let Draft { kind, priority, enabled, max_per_second, .. } = *self;
        let mut settings = self.settings.clone();
        let mut kept_names = Vec::new();
        for name in absent_secrets(kind, &settings) {
            if let Some(secret) = secret_members::find(kept, name)
                && secret_members::put(&mut settings, name, secret.clone())
            {
                kept_names.push(name);
            }
        }
        let complete = Value::Object(settings);
        (kind.check)(&complete)?;
        let Value::Object(mut settings) = complete else { return Err(Vec::new()) };
        let mut secrets = Map::new();
        let mut given = Vec::new();
        for &name in kind.secrets {
            let Some(secret) = secret_members::take(&mut settings, name) else { continue };
            if secret.is_null() || secret.as_str() == Some("") {
                continue;
            }
            secret_members::put_deep(&mut secrets, name, secret);
            if !kept_names.contains(&name) {
                given.push(name);
            }
        }
        Ok(ProviderDocument {
            identifier: self.identifier.clone(),
            channel: kind.channel,
            kind: kind.name,
            priority,
            enabled,
            max_per_second,
            settings: Value::Object(settings),
            secrets,
            given,
            kept: kept_names,
        })
    }
}

/// Returns the names of the secrets that the kind can have and the settings omit.
fn absent_secrets(kind: &KnownKind, settings: &Map<String, Value>) -> Vec<&'static str> {
    let is_absent = |name: &&str| secret_members::find(settings, name).is_none();
    kind.secrets.iter().copied().filter(is_absent).collect()
}

fn known_kind(
    kinds: &'static [KnownKind],
    fields: &mut Fields,
    problems: &mut Vec<Problem>,
) -> Option<&'static KnownKind> {
    let channel = fields.required_identifier("channel", problems);
    let kind = fields.required_identifier("kind", problems);
    let (channel, kind) = (channel?, kind?);
    let named = |known: &&KnownKind| known.channel.as_str() == channel && known.name == kind;
    if let Some(known) = kinds.iter().find(named) {
        return Some(known);
    }
    let known: Vec<_> = kinds.iter().map(|known| format!("{known:?}")).collect();
    let known = known.join(", ");
    let message =
        format!("channel {channel:?} has no kind {kind:?} of provider; the known ones are: {known}");
    problems.push(Problem::new("kind", "unknown", message));
    None
}

fn max_per_second(fields: &mut Fields, problems: &mut Vec<Problem>) -> Option<u32> {
    let number = fields.whole_number("maxPerSecond", problems)?;
    let limit = u32::try_from(number).ok().filter(|limit| (1..=MOST_PER_SECOND).contains(limit));
    if limit.is_none() {
        let message = format!("maxPerSecond must be a whole number from 1 to {MOST_PER_SECOND}");
        problems.push(Problem::new("maxPerSecond", "out_of_range", message));
    }
    limit
}

fn priority(fields: &mut Fields, problems: &mut Vec<Problem>) -> i32 {
    let Some(number) = fields.whole_number("priority", problems) else {
        return DEFAULT_PRIORITY;
    };
    i32::try_from(number).unwrap_or_else(|_| {
        let message = format!("priority must be a whole number from {} to {}", i32::MIN, i32::MAX);
        problems.push(Problem::new("priority", "out_of_range", message));
        DEFAULT_PRIORITY
    })
}

#[cfg(test)]
mod tests;
