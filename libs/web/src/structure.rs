//! Limits on the structure of a body's JSON.

use actix_web::http::StatusCode;
use domain::request::MAX_RECIPIENTS;
use domain::structure::Structure;

use crate::failure::Failure;

/// Maximum number of objects and arrays in a body: five per recipient of the largest send.
pub const MAX_CONTAINERS: usize = 5 * MAX_RECIPIENTS;
/// Maximum number of objects and arrays in the body of a caller without the API secret.
pub const MAX_USER_CONTAINERS: usize = 5_000;

/// Rejects a body whose parsed JSON would need much more memory than its text. 413 if more than `most_outside` bytes are
/// outside of strings, 400 if there are more than `most` objects and arrays. Malformed JSON passes this check; the parser
/// rejects it later.
pub fn check(text: &[u8], most: usize, most_outside: usize) -> Result<Structure, Failure> {
    let structure = Structure::of(text);
    if structure.outside > most_outside {
        return Err(too_large_outside(most_outside));
    }
    if structure.containers > most {
        let message =
            format!("the body has more than {most} objects and arrays; split it into several requests");
        return Err(Failure::problem("", "too_many", message));
    }
    Ok(structure)
}

/// Returns a 413 for a body with more than `most` bytes outside of strings.
fn too_large_outside(most: usize) -> Failure {
    let message = format!("the body is larger than {most} bytes outside of its strings");
    Failure::refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::BODY_ROOM;
    use crate::body::{MAX_BODY, MAX_USER_BODY};
    use fairness::quota::PARTS;

    #[test]
    fn a_body_may_have_50000_objects_and_arrays_and_768_kib_outside_of_strings() {
        let check = |text: &[u8]| check(text, MAX_CONTAINERS, MAX_BODY);
        let objects = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        assert!(check(objects(MAX_CONTAINERS - 1).as_bytes()).is_ok());
        let refused = check(objects(MAX_CONTAINERS).as_bytes());
        assert!(matches!(refused, Err(Failure::Invalid(problems)) if problems[0].code == "too_many"));

        let most = Structure { outside: MAX_BODY, containers: MAX_CONTAINERS, separators: MAX_BODY };
        assert!(
            MAX_BODY + most.memory() <= BODY_ROOM * 1024 / 2,
            "the largest body fits into one app's share"
        );
        let most =
            Structure { outside: MAX_USER_BODY, containers: MAX_USER_CONTAINERS, separators: MAX_USER_BODY };
        let public_key = BODY_ROOM * 1024 / PARTS.public_key;
        assert!(
            MAX_USER_BODY + most.memory() <= public_key / 4,
            "the largest body fits into one user's share"
        );

        let file = format!("[\"{}\"]", "[".repeat(15 * 1024 * 1024));
        assert!(check(file.as_bytes()).is_ok());
        let spaces = " ".repeat(MAX_BODY - 4);
        assert!(check((file.clone() + &spaces).as_bytes()).is_ok());
        let refused = check((file + &spaces + " ").as_bytes());
        assert!(matches!(refused, Err(Failure::Refused { code: "too_large", .. })));
    }
}
