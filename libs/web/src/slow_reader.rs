//! Limit on the memory of large answers. An answer counts against its caller's share of memory until the client has read it.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::web::Bytes;
use actix_web::{HttpMessage, ResponseError};

use crate::admission::Admission;
use crate::failure::crowded;
use crate::peer;
use fairness::principal::Principal;
use fairness::quota::Lease;

/// Minimum size in bytes of an answer that counts against its caller's share. A smaller answer fits into the socket's send
/// buffer.
const SMALL: u64 = 16 * 1024;

/// Body of a large answer. Its size counts against the caller's share of memory until the connection has sent the body or is
/// closed.
struct BodyWithRoom {
    body: BoxBody,
    _place: Lease,
}

/// Counts the size of a large answer against its caller's share of memory. If the share is used up, returns a 503 instead of the
/// answer.
pub fn kept_until_read(response: ServiceResponse, admission: &Admission) -> ServiceResponse {
    let BodySize::Sized(size @ SMALL..) = response.response().body().size() else { return response };
    let request = response.request();
    let principal = request.extensions().get::<Principal>().copied();
    let principal = principal.unwrap_or_else(|| Principal::stranger(peer::of_request(request)));
    let kibibytes = usize::try_from(size.div_ceil(1024)).unwrap_or(usize::MAX);
    match admission.answers.take(&principal, kibibytes) {
        Ok(place) => response.map_body(|_, body| BoxBody::new(BodyWithRoom { body, _place: place })),
        Err(_) => response.into_response(crowded().error_response()),
    }
}

impl MessageBody for BodyWithRoom {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}
