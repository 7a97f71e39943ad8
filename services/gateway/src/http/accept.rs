//! Content negotiation by `Accept` (RFC 9110, section 12.5.1). The API answers only in JSON.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::ACCEPT;

use crate::http::failure::Failure;

/// Returns a 406 if the caller does not accept JSON. Error answers are JSON in any case.
pub(crate) fn check(request: &HttpRequest) -> Result<(), Failure> {
    let mut ranges = request.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok()).peekable();
    if ranges.peek().is_none() || admits_json(ranges.flat_map(|value| value.split(','))) {
        return Ok(());
    }
    let message = "answers are application/json, which the header Accept does not allow";
    Err(Failure::refused(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message))
}

/// Returns true if the list of media ranges accepts JSON. The most specific range that matches JSON decides. An empty list
/// accepts everything.
fn admits_json<'a>(ranges: impl Iterator<Item = &'a str>) -> bool {
    let mut ranges = ranges.map(str::trim).filter(|range| !range.is_empty()).peekable();
    let by_default = ranges.peek().is_none();
    ranges.filter_map(request_app).max().map_or(by_default, |(_, admitted)| admitted)
}

/// Returns how specific a media range is (2 for the exact type, 0 for `*/*`), and true if its weight `q` is not 0. None if the
/// range does not match JSON.
fn request_app(range: &str) -> Option<(u8, bool)> {
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
            assert_eq!(admits_json(accept.split(',')), expected, "{accept}");
        }
    }
}
