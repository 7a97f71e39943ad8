//! Panics in the log.

use std::any::Any;
use std::panic;

/// Logs every panic as one line with its place, instead of the plain text that the standard library prints.
pub(crate) fn log() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        tracing::error!(place, cause = message(info.payload()), "a thread panicked");
    }));
}

/// The message of a panic if it is fixed text. A formatted one may hold data of a request, such as the value that was
/// unwrapped, so it is withheld; the place says which it was.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("withheld, because it may hold data")
}
