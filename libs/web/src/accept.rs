//! Content negotiation by `Accept` (RFC 9110, section 12.5.1). The API answers in JSON, except for the event stream.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::ACCEPT;

use crate::failure::Failure;

/// Media type of an answer.
#[derive(Clone, Copy)]
struct MediaType {
    exact: &'static str,
    any_subtype: &'static str,
}

const JSON: MediaType = MediaType { exact: "application/json", any_subtype: "application/*" };
const EVENT_STREAM: MediaType = MediaType { exact: "text/event-stream", any_subtype: "text/*" };

/// Returns a 406 if the caller does not accept JSON. Error answers are JSON in any case.
pub fn check(request: &HttpRequest) -> Result<(), Failure> {
    check_for(request, JSON)
}

/// Returns a 406 if the caller does not accept an event stream.
pub fn check_event_stream(request: &HttpRequest) -> Result<(), Failure> {
    check_for(request, EVENT_STREAM)
}

fn check_for(request: &HttpRequest, answer: MediaType) -> Result<(), Failure> {
    let mut ranges = request.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok()).peekable();
    if ranges.peek().is_none() || admits(ranges.flat_map(|value| value.split(',')), answer) {
        return Ok(());
    }
    let message = format!("answers are {}, which the header Accept does not allow", answer.exact);
    Err(Failure::refused(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message))
}

/// Returns true if the list of media ranges accepts the answer. The most specific range that matches it decides. An empty list
/// accepts everything.
fn admits<'a>(ranges: impl Iterator<Item = &'a str>, answer: MediaType) -> bool {
    let mut ranges = ranges.map(str::trim).filter(|range| !range.is_empty()).peekable();
    let by_default = ranges.peek().is_none();
    ranges.filter_map(|range| matching(range, answer)).max().map_or(by_default, |(_, admitted)| admitted)
}

/// Returns the specificity of a media range that matches the answer (2 for the exact type, 0 for `*/*`), and false if the range
/// excludes the answer with the weight `q=0`. None for a range that does not match.
fn matching(range: &str, answer: MediaType) -> Option<(u8, bool)> {
    let mut parts = range.split(';').map(str::trim);
    let specificity = match parts.next()?.to_ascii_lowercase().as_str() {
        exact if exact == answer.exact => 2,
        any if any == answer.any_subtype => 1,
        "*/*" => 0,
        _ => return None,
    };
    let weight =
        parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
    let refused = weight.is_some_and(|(_, weight)| weight.parse() == Ok(0.0));
    Some((specificity, !refused))
}

#[cfg(test)]
mod tests {
    use super::{EVENT_STREAM, JSON, admits};

    #[test]
    fn the_most_specific_range_decides_about_json() {
        let cases = [
            ("", true),
            (" , ", true),
            ("*/*", true),
            ("application/*", true),
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/html, application/json;q=0.1", true),
            ("text/html;q=1, */*;q=0.1", true),
            ("application/json, */*;q=0", true),
            ("application/json;q=0, application/json", true),
            ("application/json;q=much", true),
            ("text/html", false),
            ("text/*", false),
            ("application/problem+json", false),
            ("*/*;q=0", false),
            ("*/*; q=0.000", false),
            ("application/json;q=0, */*", false),
            ("application/*;Q=0, */*", false),
        ];
        for (accept, expected) in cases {
            assert_eq!(admits(accept.split(','), JSON), expected, "{accept}");
        }
        assert!(admits("text/event-stream".split(','), EVENT_STREAM));
        assert!(!admits("application/json".split(','), EVENT_STREAM));
    }
}
