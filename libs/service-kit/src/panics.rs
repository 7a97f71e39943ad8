use std::any::Any;
use std::panic;
use std::time::Instant;

use crate::line_rate::LineRate;

/// Logs panics as one line with their location, at most one per second and location.
pub(crate) fn log() {
    let rate = LineRate::default();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string);
        if let Some(left_out) = rate.line(place.clone(), Instant::now()) {
            tracing::error!(place, cause = message(info.payload()), left_out, "a thread panicked");
        }
    }));
}

/// Withholds a formatted message, which may contain data of a request, such as an unwrapped value. The logged location still identifies the
/// panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("withheld, because it may hold data")
}
