//! Cursors: places in the order of a list, opaque to clients.

use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Problem;

use crate::http::query::Query;

/// The cursor that leads to what comes after `place`.
pub(crate) fn write(place: impl Display) -> String {
    URL_SAFE_NO_PAD.encode(place.to_string())
}

/// The place that the parameter `cursor` leads to; None where it is missing.
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
