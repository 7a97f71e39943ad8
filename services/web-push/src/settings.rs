use domain::Problem;
use domain::settings::SettingsReader;
use domain::web_push::{Urgency, read_ttl, read_urgency};
use serde_json::Value;

const MAX_SUBJECT: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VapidSettings {
    /// Contact for operators of push services: a `mailto:` or `https:` URI (RFC 8292, section 2.1).
    pub subject: String,
    /// Default time for which push services keep a message, in seconds.
    pub ttl: Option<u32>,
    pub urgency: Option<Urgency>,
}

impl VapidSettings {
    /// Parses settings in the format of `tidings provider set`. Returns all problems of the settings.
    pub fn parse(settings: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let (fields, problems) = reader.fields();
        fields.require("subject", problems);
        let subject = fields.string("subject", MAX_SUBJECT, problems);
        if subject.as_deref().is_some_and(|subject| !is_contact(subject)) {
            let message = "settings.subject must be a mailto: or https: URI, such as mailto:push@example.com";
            problems.push(Problem::new("settings.subject", "invalid", message));
        }
        let ttl = read_ttl(fields, problems);
        let urgency = read_urgency(fields, problems);
        reader.finish(subject.map(|subject| VapidSettings { subject, ttl, urgency }))
    }
}

fn is_contact(subject: &str) -> bool {
    if !subject.bytes().all(|byte| byte.is_ascii_graphic()) {
        return false;
    }
    match subject.split_once(':') {
        Some(("mailto", address)) => {
            address.split_once('@').is_some_and(|(local, host)| !local.is_empty() && !host.is_empty())
        }
        Some(("https", rest)) => {
            rest.strip_prefix("//").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        }
        _ => false,
    }
}
