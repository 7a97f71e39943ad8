//! Calls that need no credentials.

use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::gateway::Gateway;
use crate::http::failure::Failure;
use crate::http::shares::holder::Holder;
use crate::http::shares::peer::Peer;

/// Any caller. The request counts against the rate limit of its peer; 429 if the peer exceeds it.
pub(crate) struct Stranger;

impl FromRequest for Stranger {
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Stranger, Failure>>>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            let gateway = Gateway::of(&request)?;
            gateway.admit_stranger(&request, Holder::stranger(Peer::of_request(&request))).await?;
            Ok(Stranger)
        })
    }
}
