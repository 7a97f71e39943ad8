//! The query string, read parameter by parameter.

use std::borrow::Cow;
use std::future::{Ready, ready};
use std::ops::RangeInclusive;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use domain::Problem;
use percent_encoding::percent_decode_str;

use crate::declared;
use crate::failure::Failure;

/// A query string. Each parameter is validated when it is read.
pub struct Query {
    request: HttpRequest,
}

/// Marks a request whose handler reads the query.
struct QueryRead;

impl FromRequest for Query {
    type Error = Failure;
    type Future = Ready<Result<Query, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        request.extensions_mut().insert(QueryRead);
        ready(Ok(Query::of(request)))
    }
}

impl Query {
    pub fn of(request: &HttpRequest) -> Query {
        Query { request: request.clone() }
    }

    /// Returns true if the handler of this request reads the query.
    pub(crate) fn is_read(request: &HttpRequest) -> bool {
        request.extensions().contains::<QueryRead>()
    }

    /// Reads a text; None if the parameter is missing, empty or invalid. An invalid parameter adds a problem.
    pub fn text(&self, name: &'static str, problems: &mut Vec<Problem>) -> Option<String> {
        self.value(name, problems).filter(|text| !text.is_empty())
    }

    /// Reads what a list is searched for. An empty value adds a problem: without the filter, the list would have everything.
    pub fn filter(&self, name: &'static str, problems: &mut Vec<Problem>) -> Option<String> {
        let text = self.value(name, problems)?;
        if text.is_empty() {
            problems.push(Problem::new(
                name,
                "required",
                format!("{name} must not be empty; leave it out to list all"),
            ));
        }
        Some(text)
    }

    /// Reads a whole number; None if the parameter is missing. A value that is not a number within `range` adds a problem.
    pub fn number(
        &self,
        name: &'static str,
        range: RangeInclusive<i64>,
        problems: &mut Vec<Problem>,
    ) -> Option<i64> {
        let text = self.value(name, problems)?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten().filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = range.into_inner();
            let message = format!("{name} must be a whole number from {least} to {most}");
            problems.push(Problem::new(name, "invalid_number", message));
        }
        number
    }

    /// Reads `true` or `false`; None if the parameter is missing or empty. Any other value adds a problem.
    pub fn flag(&self, name: &'static str, problems: &mut Vec<Problem>) -> Option<bool> {
        self.one_of(name, &[("true", true), ("false", false)], problems)
    }

    /// Reads one of the names in `values`, and returns the value paired with that name. None if the parameter is missing or
    /// empty. Any other name adds a problem.
    pub fn one_of<T: Copy>(
        &self,
        name: &'static str,
        values: &[(&str, T)],
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        let text = self.text(name, problems)?;
        let found = values.iter().find(|(value, _)| *value == text);
        if found.is_none() {
            let names: Vec<_> = values.iter().map(|(value, _)| *value).collect();
            let message = format!("{name} must be one of {}", names.join(", "));
            problems.push(Problem::new(name, "unknown_value", message));
        }
        found.map(|(_, value)| *value)
    }

    /// Finishes reading. A parameter that the call does not declare adds a problem if strict handling or its spelling forbids it.
    pub fn finish(&self, problems: &mut Vec<Problem>) {
        problems.extend(declared::problems(&self.request));
    }

    /// Returns the decoded value; None if the parameter is missing. A parameter that is sent twice, is not UTF-8 or contains
    /// U+0000 adds a problem.
    fn value(&self, name: &'static str, problems: &mut Vec<Problem>) -> Option<String> {
        let named = pairs(&self.request).filter(|(key, _)| decode(key).is_some_and(|key| key == name));
        let mut values = named.map(|(_, value)| value);
        let value = decode(values.next()?);
        let problem = if values.next().is_some() {
            Problem::new(name, "repeated", format!("{name} must not be sent more than once"))
        } else if value.as_deref().is_none_or(|value| value.contains('\0')) {
            Problem::new(name, "invalid_character", format!("{name} must be UTF-8 without U+0000"))
        } else {
            return value.map(Cow::into_owned);
        };
        problems.push(problem);
        None
    }
}

/// Iterates over the decoded names of the parameters. A name that is not UTF-8 is not decoded.
pub fn names(request: &HttpRequest) -> impl Iterator<Item = Cow<'_, str>> {
    let names = pairs(request).map(|(key, _)| key).filter(|key| !key.is_empty());
    names.map(|key| decode(key).unwrap_or(Cow::Borrowed(key)))
}

fn pairs(request: &HttpRequest) -> impl Iterator<Item = (&str, &str)> {
    request.query_string().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8().ok().map(|text| Cow::Owned(text.into_owned()))
    } else {
        percent_decode_str(text).decode_utf8().ok()
    }
}
