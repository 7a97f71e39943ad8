use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use crate::Problem;

const MOST_ORIGINS: usize = 100;

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
