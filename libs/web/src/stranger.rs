//! Calls that need no credentials.

use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::admission::Admission;
use crate::failure::Failure;
use crate::peer;
use fairness::principal::Principal;

/// Any caller. The request counts against the rate limit of its peer; 429 if the peer exceeds it.
pub struct Stranger;

impl FromRequest for Stranger {
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Stranger, Failure>>>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            let admission = Admission::of(&request)?;
            admission.admit_stranger(&request, Principal::stranger(peer::of_request(&request))).await?;
            Ok(Stranger)
        })
    }
}
