//! `Prefer: handling=strict` (RFC 7240, section 4.4): unknown members and parameters are problems.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::failure::Failure;

/// Preference of the client: to refuse unknown members and parameters (strict), or to ignore them.
#[derive(Clone, Copy)]
pub struct Handling {
    pub strict: bool,
}

impl FromRequest for Handling {
    type Error = Failure;
    type Future = Ready<Result<Handling, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Handling::of(request)))
    }
}

impl Handling {
    pub(crate) fn of(request: &HttpRequest) -> Handling {
        let mut values = request.headers().get_all("prefer").filter_map(|value| value.to_str().ok());
        Handling { strict: values.any(|value| value.split([',', ';']).any(is_strict)) }
    }
}

fn is_strict(preference: &str) -> bool {
    let Some((name, value)) = preference.split_once('=') else {
        return false;
    };
    name.trim().eq_ignore_ascii_case("handling")
        && value.trim().trim_matches('"').eq_ignore_ascii_case("strict")
}
