//! HTML forms (`application/x-www-form-urlencoded`).

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Parses a body or the query of a URL. Returns None if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Form> {
        let text = std::str::from_utf8(body).ok()?.replace('+', " ");
        let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
        let fields = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((decode(name)?, decode(value)?))
        });
        fields.collect::<Option<Vec<_>>>().map(Form)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) fn write(fields: &[(String, String)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}
