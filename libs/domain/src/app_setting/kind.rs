use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use crate::Problem;
use crate::email_layout::Color;
use crate::fields::check_identifier;

const MOST_ORIGINS: usize = 100;
/// Characters.
pub const LONGEST_URL: usize = 1_000;

pub(super) trait Kind {
    type Value;

    fn syntax(&self) -> String;

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Self::Value>;

    fn show(&self, value: &Self::Value) -> String;

    fn member(&self, value: &Self::Value) -> Value
    where
        Self::Value: Serialize,
    {
        json!(value)
    }

    /// The value that applies if nothing is set; None if the configuration decides.
    fn default_number(&self) -> Option<u32> {
        None
    }
}

fn refuse(name: &str, expected: &str, problems: &mut Vec<Problem>) {
    problems.push(Problem::new(name, "unknown_value", format!("{name} must be {expected}")));
}

pub(super) struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn syntax(&self) -> String {
        "on|off".to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<bool> {
        match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => {
                refuse(name, "on or off", problems);
                None
            }
        }
    }

    fn show(&self, value: &bool) -> String {
        if *value { "on" } else { "off" }.to_owned()
    }
}

/// Setting whose value is true for `guarded`.
pub(super) struct Guard;

impl Kind for Guard {
    type Value = Option<bool>;

    fn syntax(&self) -> String {
        "open|guarded".to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Option<bool>> {
        match text {
            "open" => Some(Some(false)),
            "guarded" => Some(Some(true)),
            _ => {
                refuse(name, "open or guarded", problems);
                None
            }
        }
    }

    fn show(&self, value: &Option<bool>) -> String {
        match value {
            Some(true) => "guarded",
            Some(false) => "open",
            None => "default",
        }
        .to_owned()
    }

    fn member(&self, value: &Option<bool>) -> Value {
        Value::String(self.show(value))
    }
}

/// A whole number from 1 to `most`, or the default.
pub(super) struct Number {
    pub(super) most: u32,
    pub(super) unit: Unit,
    pub(super) default: Option<u32>,
}

#[derive(Clone, Copy)]
pub(super) enum Unit {
    Count,
    Days,
}

impl Kind for Number {
    type Value = Option<NonZeroU32>;

    fn syntax(&self) -> String {
        match self.unit {
            Unit::Count => "N|default",
            Unit::Days => "DAYS|default",
        }
        .to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Option<NonZeroU32>> {
        if text == "default" {
            return Some(None);
        }
        let number: Option<NonZeroU32> =
            text.parse().ok().filter(|number: &NonZeroU32| number.get() <= self.most);
        if number.is_none() {
            let of = match self.unit {
                Unit::Count => "",
                Unit::Days => " of days",
            };
            refuse(name, &format!("default, or a whole number{of} from 1 to {}", self.most), problems);
        }
        number.map(Some)
    }

    fn show(&self, value: &Option<NonZeroU32>) -> String {
        value.map_or("default".to_owned(), |number| number.to_string())
    }

    fn default_number(&self) -> Option<u32> {
        self.default
    }
}

pub(super) struct Word<T: 'static>(pub(super) &'static [T]);

impl<T: Display + FromStr> Kind for Word<T> {
    type Value = T;

    fn syntax(&self) -> String {
        self.words().join("|")
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<T> {
        let value = text.parse().ok();
        if value.is_none() {
            let words = self.words();
            let expected = match words.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => String::new(),
            };
            refuse(name, &expected, problems);
        }
        value
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

impl<T: Display> Word<T> {
    fn words(&self) -> Vec<String> {
        self.0.iter().map(T::to_string).collect()
    }
}

/// A list of web origins. None allows all origins, an empty list allows none.
pub(super) struct Origins;

impl Kind for Origins {
    type Value = Option<Vec<String>>;

    fn syntax(&self) -> String {
        "any|none|https://a.example,https://b.example".to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Self::Value> {
        let origins: Vec<String> = match text {
            "any" => return Some(None),
            "none" => Vec::new(),
            list => list.split(',').map(str::to_owned).collect(),
        };
        let before = problems.len();
        let wrong = origins.iter().filter(|origin| !is_origin(origin)).map(|origin| {
            let message = format!(
                "{name} must be any, none, or a comma-separated list of origins as browsers send them, such as \
                 https://shop.example or http://localhost:3000; {origin:?} is not an origin"
            );
            Problem::new(name, "invalid_origin", message)
        });
        problems.extend(wrong);
        if origins.len() > MOST_ORIGINS {
            let message = format!("{name} may list at most {MOST_ORIGINS} origins");
            problems.push(Problem::new(name, "too_many", message));
        }
        (problems.len() == before).then_some(Some(origins))
    }

    fn show(&self, value: &Self::Value) -> String {
        match value.as_deref() {
            None => "any".to_owned(),
            Some([]) => "none".to_owned(),
            Some(origins) => origins.join(","),
        }
    }
}

/// Returns true for an origin in a browser's canonical spelling (RFC 6454, section 6.2): scheme, host, and a port unless it is
/// the scheme's default. Apps have their own schemes, such as `capacitor://localhost`.
fn is_origin(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let bare = url.username().is_empty() && matches!(url.path(), "" | "/");
    bare && url.has_host() && !text.contains('*') && url.as_str().trim_end_matches('/') == text
}

/// One line of text that is shown to people; the word `unset` stands for None.
pub(super) struct Text {
    /// Characters.
    pub(super) longest: usize,
    pub(super) unset: &'static str,
}

impl Kind for Text {
    type Value = Option<String>;

    fn syntax(&self) -> String {
        format!("TEXT|{}", self.unset)
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Option<String>> {
        let Text { longest, unset } = self;
        let expected = || {
            format!(
                "{unset}, or 1 to {longest} characters without line breaks and characters that change the direction of text"
            )
        };
        let is_line = |text: &str| {
            !text.trim().is_empty() && text.chars().count() <= *longest && !text.chars().any(is_invisible)
        };
        parsed(unset, text, |text| is_line(text).then(|| text.trim().to_owned()))
            .or_else(|| refused(name, &expected(), problems))
    }

    fn show(&self, value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| self.unset.to_owned())
    }
}

/// An `https` URL, or none.
pub(super) struct ImageUrl;

impl Kind for ImageUrl {
    type Value = Option<String>;

    fn syntax(&self) -> String {
        "https://a.example/logo.png|none".to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Option<String>> {
        let url = |text: &str| {
            let url =
                Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.username().is_empty());
            url.map(|url| url.as_str().to_owned()).filter(|url| url.len() <= LONGEST_URL)
        };
        let expected = format!("none, or an https URL of at most {LONGEST_URL} characters");
        parsed("none", text, url).or_else(|| refused(name, &expected, problems))
    }

    fn show(&self, value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "none".to_owned())
    }
}

pub(super) struct Accent;

impl Kind for Accent {
    type Value = Option<Color>;

    fn syntax(&self) -> String {
        "#RRGGBB|default".to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Option<Color>> {
        parsed("default", text, |text| text.parse().ok())
            .or_else(|| refused(name, "default, or a colour such as #635bff", problems))
    }

    fn show(&self, value: &Option<Color>) -> String {
        value.map_or_else(|| "default".to_owned(), |color| color.to_string())
    }
}

/// Identifier of a template of the app, which may be missing.
pub(super) struct Template;

impl Kind for Template {
    type Value = Option<String>;

    fn syntax(&self) -> String {
        "TEMPLATE|default".to_owned()
    }

    fn parse(&self, name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Option<String>> {
        parsed("default", text, |text| check_identifier(name, text.to_owned(), &mut Vec::new()))
            .or_else(|| refused(name, "default, or the identifier of a template", problems))
    }

    fn show(&self, value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "default".to_owned())
    }
}

/// Reads a value; the word `unset` stands for None.
fn parsed<T>(unset: &str, text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == unset { Some(None) } else { read(text).map(Some) }
}

fn refused<T>(name: &str, expected: &str, problems: &mut Vec<Problem>) -> Option<T> {
    refuse(name, expected, problems);
    None
}

/// Returns true for control characters, and for those that change the direction of the text around them (UAX 9).
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_those_that_browsers_send() {
        for origin in
            ["https://a.example", "http://localhost:3000", "https://[::1]:8443", "capacitor://localhost"]
        {
            assert!(is_origin(origin), "{origin}");
        }
        for other in [
            "",
            "*",
            "null",
            "a.example",
            "https://",
            "https://a.example/",
            "https://a.example/x",
            "https://A.example",
            "https://a.example:443",
            "https://u@a.example",
            "https://a.example?",
            "https://*.example",
            "mailto:a@b.c",
            " https://a.example",
            "https://a.example#x",
            "file:///x",
        ] {
            assert!(!is_origin(other), "{other}");
        }
    }
}
