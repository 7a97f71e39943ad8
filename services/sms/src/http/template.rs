use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) to: &'a str,
    pub(crate) text: &'a str,
    pub(crate) from: &'a str,
    pub(crate) id: &'a str,
}

/// Function that escapes a value for its context.
pub(crate) type Encoding = fn(&str) -> String;

const PLACES: [&str; 4] = ["{to}", "{text}", "{from}", "{id}"];

const SECRET: &str = "{secret:";

/// A text with the placeholders `{to}`, `{text}`, `{from}`, `{id}` for values and `{secret:NAME}` for secrets.
#[derive(Clone)]
pub struct Template {
    text: String,
    secrets: Arc<Secrets>,
}

#[derive(Debug, Default)]
pub(crate) struct Secrets(BTreeMap<String, SecretString>);

impl Template {
    pub(crate) fn new(text: impl Into<String>, secrets: &Arc<Secrets>) -> Template {
        Template { text: text.into(), secrets: Arc::clone(secrets) }
    }

    /// Secrets that the text uses but the settings do not contain.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let named = self.text.split(SECRET).skip(1).filter_map(|after| after.split_once('}'));
        named.map(|(name, _)| name).filter(|name| !self.secrets.0.contains_key(*name)).collect()
    }

    /// Replaces the placeholders, but not those inside values. Unknown placeholders stay unchanged.
    pub(crate) fn render(&self, values: Values<'_>, encode: Encoding) -> String {
        let mut out = String::with_capacity(self.text.len() + values.text.len());
        let mut rest = self.text.as_str();
        while let Some(start) = rest.find('{') {
            let (before, at) = rest.split_at(start);
            out.push_str(before);
            match PLACES.iter().find(|place| at.starts_with(**place)) {
                Some(place) => {
                    out.push_str(&encode(values.named(place)));
                    rest = at.get(place.len()..).unwrap_or_default();
                }
                None => match self.secret_at(at) {
                    Some((secret, after)) => {
                        out.push_str(&encode(secret));
                        rest = after;
                    }
                    None => {
                        out.push('{');
                        rest = at.get(1..).unwrap_or_default();
                    }
                },
            }
        }
        out.push_str(rest);
        out
    }

    fn secret_at<'a>(&'a self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let (name, after) = text.strip_prefix(SECRET)?.split_once('}')?;
        self.secrets.0.get(name).map(|secret| (secret.expose_secret(), after))
    }

    pub(crate) fn has(&self, place: &str) -> bool {
        self.text.contains(place)
    }
}

impl Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.text).finish()
    }
}

impl FromIterator<(String, SecretString)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, SecretString)>>(secrets: I) -> Secrets {
        Secrets(secrets.into_iter().collect())
    }
}

impl Secrets {
    /// Values of all secrets. They are removed from a provider's response before it is recorded.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(ExposeSecret::expose_secret)
    }
}

impl Values<'_> {
    fn named(&self, place: &str) -> &str {
        match place {
            "{to}" => self.to,
            "{text}" => self.text,
            "{from}" => self.from,
            _ => self.id,
        }
    }
}

/// Escapes a value for use between the quotes of a JSON string (RFC 8259, section 7).
pub(crate) fn in_json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

pub(crate) fn in_form(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// Escapes a value for the path or query of a URL. Only ASCII letters and digits stay unescaped.
pub(crate) fn in_url(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'_> = Values { to: "+49151", text: "a \"{to}\" & 50%\n", from: "", id: "1" };

    fn plain(text: &str) -> Template {
        Template::new(text, &Arc::default())
    }

    #[test]
    fn secrets_are_rendered_but_not_shown_by_debug() {
        let secrets: Secrets = [("key".to_owned(), SecretString::from("a&\"b"))].into_iter().collect();
        let secrets = Arc::new(secrets);
        let url = Template::new("https://x/?k={secret:key}&o={secret:other}&t={text}", &secrets);
        let rendered = url.render(Values { text: "{secret:key}", ..VALUES }, in_url);
        assert_eq!(rendered, "https://x/?k=a%26%22b&o={secret:other}&t=%7Bsecret%3Akey%7D");
        assert_eq!(url.missing(), ["other"]);
        assert_eq!(
            Template::new(r#"{"k":"{secret:key}"}"#, &secrets).render(VALUES, in_json),
            r#"{"k":"a&\"b"}"#
        );
        assert!(!format!("{url:?}").contains("a&"));
    }

    #[test]
    fn values_are_escaped_for_their_context() {
        let json = plain(r#"{"to":"{to}","text":"{text}","x":{"id":"{id}"},"from":"{from}"}"#);
        assert_eq!(
            json.render(VALUES, in_json),
            r#"{"to":"+49151","text":"a \"{to}\" & 50%\n","x":{"id":"1"},"from":""}"#
        );
        let form = plain("to={to}&text={text}&{unknown}&{");
        assert_eq!(
            form.render(VALUES, in_form),
            "to=%2B49151&text=a+%22%7Bto%7D%22+%26+50%25%0A&{unknown}&{"
        );
        let url = plain("https://x/{to}?text={text}");
        assert_eq!(url.render(VALUES, in_url), "https://x/%2B49151?text=a%20%22%7Bto%7D%22%20%26%2050%25%0A");
    }
}
