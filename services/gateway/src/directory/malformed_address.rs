//! Malformed addresses in a written profile. Clients rely on the 2xx of a write, so the profile is stored and the answer warns:
//! nothing can be sent to such an address. With `Prefer: handling=strict`, the write is refused.

use actix_web::HttpResponse;
use actix_web::http::header::WARNING;
use domain::Problem;
use web::failure::Failure;
use web::handling::Handling;
use web::warning;

/// Refuses a strict write with malformed addresses. Returns the problems of any other write.
pub(super) fn checked(malformed: Vec<Problem>, handling: Handling) -> Result<Vec<Problem>, Failure> {
    if handling.strict && !malformed.is_empty() { Err(Failure::Invalid(malformed)) } else { Ok(malformed) }
}

/// Adds a header `Warning` for each malformed address that was stored.
pub(super) fn with_warnings(mut answer: HttpResponse, malformed: &[Problem]) -> HttpResponse {
    // Messages about addresses of a profile are ASCII and never quote the address.
    for value in malformed.iter().filter_map(|problem| warning::value(&problem.message)) {
        answer.headers_mut().append(WARNING, value);
    }
    answer
}
