//! Cursors: positions in a list, opaque to clients; and pages that lead to the next one.

use std::fmt::Display;

use actix_web::HttpResponse;
use actix_web::http::header::LINK;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Problem;
use serde::Serialize;

use crate::query::Query;

/// Encodes the cursor for the next page. `place` is the position of the last element of the current page.
pub fn write(place: impl Display) -> String {
    URL_SAFE_NO_PAD.encode(place.to_string())
}

/// Decodes the position in a cursor.
pub fn place(cursor: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// Reads a position from the parameter `cursor`. None if the parameter is missing or invalid. An invalid parameter also adds a
/// problem.
pub fn read<T>(
    query: &Query,
    parse: impl FnOnce(&str) -> Option<T>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = query.text("cursor", problems)?;
    let place = place(&text).and_then(|place| parse(&place));
    if place.is_none() {
        let message = "cursor must be the nextCursor of an earlier answer";
        problems.push(Problem::new("cursor", "invalid_cursor", message));
    }
    place
}

/// Answers with a page of a list: an array of at most `limit` elements. If `found` has more, the header `Link` leads to the next page
/// (RFC 8288). `path` is the path of the list, which may have a query. `place` returns the position of an element.
pub fn linked_page<'a, T, Place: Display, Body: Serialize>(
    path: &str,
    limit: i64,
    found: &'a [T],
    place: impl Fn(&T) -> Place,
    present: impl Fn(&'a T) -> Body,
) -> HttpResponse {
    let (shown, more) = found.split_at(found.len().min(usize::try_from(limit).unwrap_or(usize::MAX)));
    let mut response = HttpResponse::Ok();
    if let Some(last) = shown.last().filter(|_| !more.is_empty()) {
        let joint = if path.contains('?') { '&' } else { '?' };
        let next = write(place(last));
        response.append_header((LINK, format!("<{path}{joint}limit={limit}&cursor={next}>; rel=\"next\"")));
    }
    response.json(shown.iter().map(present).collect::<Vec<_>>())
}
