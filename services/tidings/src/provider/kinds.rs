use std::sync::LazyLock;

use domain::Channel;
use operations::providers::KnownKind;
use worker::Kind;

pub(crate) fn all() -> impl Iterator<Item = (Channel, &'static dyn Kind)> {
    let email = email::KINDS.iter().map(|&kind| (Channel::Email, kind as &dyn Kind));
    let web_push = web_push::KINDS.iter().map(|&kind| (Channel::WebPush, kind as &dyn Kind));
    let mobile_push = mobile_push::KINDS.iter().map(|&kind| (Channel::MobilePush, kind as &dyn Kind));
    let sms = sms::KINDS.iter().map(|&kind| (Channel::Sms, kind as &dyn Kind));
    email.chain(web_push).chain(mobile_push).chain(sms)
}

pub(crate) fn known() -> &'static [KnownKind] {
    static KNOWN: LazyLock<Vec<KnownKind>> = LazyLock::new(|| {
        let described = all().map(|(channel, kind)| KnownKind {
            channel,
            name: kind.name(),
            example: kind.example(),
            secrets: kind.secrets(),
            check: Box::new(move |settings| kind.check(settings)),
        });
        described.collect()
    });
    &KNOWN
}

pub(crate) fn find(channel: Channel, name: &str) -> Option<&'static dyn Kind> {
    all().find(|(of, kind)| *of == channel && kind.name() == name).map(|(_, kind)| kind)
}

pub(super) fn format() -> String {
    let mut text = String::from(
        r#"The document:
  {
    "identifier": "main",          unique in the app; setting it again replaces the provider
    "channel": "email",            channel and kind must be
    "kind": "smtp",                one of the pairs below
    "priority": 10,                the lowest number is tried first [default: 10]
    "enabled": true,               [default: true]
    "maxPerSecond": 50,            maximum calls per second of each worker [default: no limit]
    "settings": {...}              settings of the kind
  }

Secrets are stored encrypted and never shown. When a provider is set again, a secret that the document leaves out stays
unchanged, and null removes it; a secret in an object is removed with that object. If channel or kind changes, no secrets
are kept. If the server changes (host, port, security, a URL or its certificate), the secrets must be given again.

"#,
    );
    for (channel, kind) in all() {
        text.push_str(&format!("Settings of {channel}/{}:\n  {}\n", kind.name(), kind.example()));
        if !kind.secrets().is_empty() {
            text.push_str(&format!("  Secrets: {}\n", kind.secrets().join(", ")));
        }
        text.push('\n');
    }
    text.push_str(
        "Examples:
  tidings provider set shop main.json
  tidings provider set shop main.json --dry-run
  tidings provider set shop < main.json
  tidings provider set shop --stand-in email,sms",
    );
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::Value;

    use super::*;

    /// Strips comments, which start at the first two spaces after the indentation of a line.
    fn settings(example: &str) -> Value {
        let lines = example.lines().map(|line| {
            let indent = line.len() - line.trim_start().len();
            let code = line[indent..].find("  ").map_or(line, |end| &line[..indent + end]);
            code.to_owned()
        });
        let text: String = lines.collect::<Vec<_>>().join("\n");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    #[test]
    fn the_example_of_every_kind_is_valid_and_names_its_secrets() {
        for (channel, kind) in all() {
            let name = format!("{channel}/{}", kind.name());
            let settings = settings(kind.example());
            // Examples abbreviate keys and certificates, because valid ones are too long for the help.
            let is_key = |field: &str| {
                let name = field.strip_prefix("settings.").unwrap_or(field);
                kind.secrets().contains(&name) || name == "caCertificate" || name == "certificate"
            };
            let mut problems = kind.check(&settings).err().unwrap_or_default();
            problems.retain(|problem| !is_key(&problem.field));
            assert!(problems.is_empty(), "the example of {name}: {problems:?}");
            assert!(format().contains(&name), "{name}");
        }
    }

    #[test]
    fn each_kind_has_a_form_from_which_its_example_can_be_built() {
        for kind in known() {
            let fields = kind.fields();
            let example = settings(kind.example);
            let typed = |name: &str| {
                let field = fields.iter().find(|field| field.name == name)?;
                (field.sample != "false").then(|| field.sample.clone())
            };
            let mut built = Value::Object(kind.settings(typed, &[]).unwrap());
            let mut example = example;
            for settings in [&mut built, &mut example] {
                // Empty texts and line breaks at an end are left out.
                let members = settings.as_object_mut().unwrap();
                members.retain(|_, value| value.as_str() != Some(""));
            }
            assert_eq!(built, example, "{kind:?}");
            for name in kind.secrets {
                assert!(fields.iter().any(|field| field.is_secret && field.name == *name), "{kind:?} {name}");
            }
        }
    }
}
