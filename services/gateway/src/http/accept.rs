//! `Accept` (RFC 9110, section 12.5.1). The API answers in JSON alone.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::ACCEPT;

use crate::http::failure::Failure;

/// 406 where the caller takes no JSON. Errors are JSON regardless.
pub(crate) fn check(request: &HttpRequest) -> Result<(), Failure> {
    let mut ranges = request.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok()).peekable();
    if ranges.peek().is_none() || admits_json(ranges.flat_map(|value| value.split(','))) {
        return Ok(());
    }
    let message = "answers are application/json, which the header Accept does not admit";
    Err(Failure::refused(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message))
}

/// The most specific range that JSON falls under decides. No range at all admits everything.
fn admits_json<'a>(ranges: impl Iterator<Item = &'a str>) -> bool {
    let mut ranges = ranges.map(str::trim).filter(|range| !range.is_empty()).peekable();
    let by_default = ranges.peek().is_none();
    ranges.filter_map(admission).max().map_or(by_default, |(_, admitted)| admitted)
}

/// Returns how specifically a range names JSON, and whether it admits it; None if it names another type.
fn admission(range: &str) -> Option<(u8, bool)> {
    let mut parts = range.split(';').map(str::trim);
    let specificity = match parts.next()?.to_ascii_lowercase().as_str() {
        "application/json" => 2,
        "application/*" => 1,
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
    use super::admits_json;

    #[test]
    fn json_is_admitted_by_the_most_specific_range() {
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
            assert_eq!(admits_json(accept.split(',')), expected, "{accept}");
        }
    }
}
