//! Cursors: positions in a list, opaque to clients.

use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Problem;

use crate::http::query::Query;

/// Encodes the cursor for the next page. `place` is the position of the last element of the current page.
pub(crate) fn write(place: impl Display) -> String {
    URL_SAFE_NO_PAD.encode(place.to_string())
}

/// Reads a position from the parameter `cursor`. None if the parameter is missing or invalid. An invalid parameter also adds a
/// problem.
pub(crate) fn read<T>(
    query: &Query,
    parse: impl FnOnce(&str) -> Option<T>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = query.text("cursor", problems)?;
    let place = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| parse(str::from_utf8(&bytes).ok()?));
    if place.is_none() {
        let message = "cursor must be the nextCursor of an earlier answer";
        problems.push(Problem::new("cursor", "invalid_cursor", message));
    }
    place
}
