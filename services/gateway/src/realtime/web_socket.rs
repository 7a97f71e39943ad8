//! The server side of a WebSocket (RFC 6455), as far as Socket.IO needs it: text messages and control frames, no extensions.
//!
//! [`Incoming`] refuses a frame by the length that its header declares, before the bytes arrive. [`outgoing`] holds a limited number
//! of bytes that the client has not read.

mod frames;
mod incoming;
mod outgoing;

use actix_http::ws::handshake;
use actix_web::body::BoxBody;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use fairness::principal::Principal;
use fairness::quota::Quota;

pub use self::frames::MAX_FRAME;
pub(super) use self::frames::Message;
pub(super) use self::incoming::{Ended, Incoming};
pub use self::outgoing::MAX_UNREAD;
pub(super) use self::outgoing::Outgoing;

/// Limit, in KiB, on the memory of all messages of which only a part has arrived.
pub const MESSAGE_ROOM: usize = 16 * 1024;

/// Answers the request for a WebSocket. Returns the answer, and both directions of the connection. None if the request is not a
/// valid handshake.
pub(super) fn accept(
    request: &HttpRequest,
    payload: Payload,
    room: &Quota,
    principal: Principal,
) -> Option<(HttpResponse, Incoming, Outgoing)> {
    let mut answer = handshake(request.head()).ok()?;
    let (outgoing, body) = outgoing::queue();
    let answer = answer.message_body(BoxBody::new(body)).ok()?;
    let incoming = Incoming::new(request, payload, room.clone(), principal);
    Some((answer.into(), incoming, outgoing))
}
