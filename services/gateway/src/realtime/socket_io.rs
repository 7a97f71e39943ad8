//! `/socket.io/`: live updates for the published clients of this interface, which use Socket.IO 5 over WebSocket.
//!
//! Only the part of the protocol that these clients need exists: one namespace, events to the client, and recovery of the
//! connection state. Transports other than WebSocket are refused.

pub(crate) mod packet;
pub(crate) mod session;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use fairness::principal::Principal;
use serde::Serialize;
use web::failure::Failure;
use web::peer;
use web::query::Query;
use web::stranger::Stranger;

use crate::realtime::Hub;
use crate::realtime::socket_io::session::Session;
use crate::realtime::web_socket;

/// Refusal of a handshake, in the form of Engine.IO.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EngineRefusal, example = json!({"code": 0, "message": "Transport unknown"}))]
pub(crate) struct EngineRefusal {
    code: u8,
    message: &'static str,
}

const TRANSPORT_UNKNOWN: EngineRefusal = EngineRefusal { code: 0, message: "Transport unknown" };
const BAD_REQUEST: EngineRefusal = EngineRefusal { code: 3, message: "Bad request" };
const WRONG_VERSION: EngineRefusal = EngineRefusal { code: 5, message: "Unsupported protocol version" };

/// Opens a Socket.IO connection, over which the gateway reports changes of the user's inbox.
///
/// The transport must be `websocket` and the protocol version 4. The credentials are in the query, a token is in the packet
/// CONNECT. `docs/realtime.md` describes the events.
#[utoipa::path(
    get,
    path = "/socket.io",
    operation_id = "openSocket",
    tag = "inbox",
    params(
        ("EIO" = Option<String>, Query, description = "Version of Engine.IO: `4`."),
        ("transport" = Option<String>, Query, description = "`websocket`."),
        ("apiKey" = Option<String>, Query, description = "The API key."),
        ("userId" = Option<String>, Query, description = "The user id."),
        ("userSignature" = Option<String>, Query, description = "The user's signature, if the app requires one."),
    ),
    responses(
        (status = 101, description = "The connection is open."),
        (status = 400, description = "The transport or the version is not supported.", body = EngineRefusal),
        (status = 429, description = "Too many such requests from this address."),
        (status = 500, description = "An internal error.", body = web::failure::DefectBody),
        (status = 503, description = "The gateway accepts no connection now; retry."),
    ),
)]
pub(crate) async fn open(
    request: HttpRequest,
    hub: Data<Hub>,
    _: Stranger,
    query: Query,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    if query.text("transport", &mut problems).as_deref() != Some("websocket") {
        return Ok(refused(&TRANSPORT_UNKNOWN));
    }
    if query.text("EIO", &mut problems).as_deref() != Some("4") {
        return Ok(refused(&WRONG_VERSION));
    }
    hub.check_open()?;
    let stranger = Principal::stranger(peer::of_request(&request));
    let Some((response, incoming, outgoing)) =
        web_socket::accept(&request, payload, &hub.message_room, stranger)
    else {
        return Ok(refused(&BAD_REQUEST));
    };
    let session = Session::new(request, hub.clone(), outgoing);
    hub.sockets.spawn_local(session.run(incoming));
    Ok(response)
}

fn refused(refusal: &EngineRefusal) -> HttpResponse {
    HttpResponse::build(StatusCode::BAD_REQUEST).json(refusal)
}
