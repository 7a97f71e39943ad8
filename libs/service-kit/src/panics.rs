//! Logging of panics.

use std::any::Any;
use std::panic;
use std::time::Instant;

use crate::line_rate::LineRate;

/// Logs panics as one line with their location, instead of the standard library's plain text. A location gets at most one line per
/// second.
pub(crate) fn log() {
    let rate = LineRate::default();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string);
        if let Some(left_out) = rate.line(place.clone(), Instant::now()) {
            tracing::error!(place, cause = message(info.payload()), left_out, "a thread panicked");
        }
    }));
}

/// Returns the message of a panic if the message is fixed text. A formatted message may contain data of a request, such as an
/// unwrapped value, so it is withheld. The logged location still identifies the panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("withheld, because it may hold data")
}
