//! Texts with places for the message's values.

/// What stands in the places.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) to: &'a str,
    pub(crate) text: &'a str,
    pub(crate) from: &'a str,
    pub(crate) id: &'a str,
}

/// How a value is written at its place.
pub(crate) type Encoding = fn(&str) -> String;

const PLACES: [&str; 4] = ["{to}", "{text}", "{from}", "{id}"];

/// A text in which `{to}`, `{text}`, `{from}` and `{id}` stand for values.
#[derive(Clone, Debug)]
pub struct Template(String);

impl Template {
    /// A template.
    pub(crate) fn new(text: impl Into<String>) -> Template {
        Template(text.into())
    }

    /// The text with the values at their places. What a value says is never taken for a place.
    pub(crate) fn render(&self, values: Values<'_>, encode: Encoding) -> String {
        let (mut out, mut rest) = (String::with_capacity(self.0.len() + values.text.len()), self.0.as_str());
        while let Some(start) = rest.find('{') {
            let (before, at) = rest.split_at(start);
            out.push_str(before);
            match PLACES.iter().find(|place| at.starts_with(**place)) {
                Some(place) => {
                    out.push_str(&encode(values.named(place)));
                    rest = at.get(place.len()..).unwrap_or_default();
                }
                None => {
                    out.push('{');
                    rest = at.get(1..).unwrap_or_default();
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Whether the text has this place.
    pub(crate) fn has(&self, place: &str) -> bool {
        self.0.contains(place)
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

/// The inside of a JSON string (RFC 8259, section 7).
pub(crate) fn in_json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// A value of a form.
pub(crate) fn in_form(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// A part of a path or a query, with everything escaped but letters and digits.
pub(crate) fn in_url(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'_> = Values { to: "+49151", text: "a \"{to}\" & 50%\n", from: "", id: "1" };

    #[test]
    fn values_are_written_as_their_place_needs() {
        let json = Template::new(r#"{"to":"{to}","text":"{text}","x":{"id":"{id}"},"from":"{from}"}"#);
        assert_eq!(
            json.render(VALUES, in_json),
            r#"{"to":"+49151","text":"a \"{to}\" & 50%\n","x":{"id":"1"},"from":""}"#
        );
        let form = Template::new("to={to}&text={text}&{unknown}&{");
        assert_eq!(
            form.render(VALUES, in_form),
            "to=%2B49151&text=a+%22%7Bto%7D%22+%26+50%25%0A&{unknown}&{"
        );
        let url = Template::new("https://x/{to}?text={text}");
        assert_eq!(url.render(VALUES, in_url), "https://x/%2B49151?text=a%20%22%7Bto%7D%22%20%26%2050%25%0A");
    }
}
