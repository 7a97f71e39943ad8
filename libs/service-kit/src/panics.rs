//! Logging of panics.

use std::any::Any;
use std::panic;

/// Logs every panic as one line with its location, instead of the standard library's plain text.
pub(crate) fn log() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        tracing::error!(place, cause = message(info.payload()), "a thread panicked");
    }));
}

/// Returns the message of a panic if the message is fixed text. A formatted message may contain data of a request, such as an
/// unwrapped value, so it is withheld. The logged location still identifies the panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("withheld, because it may hold data")
}
