//! `GET /v3/stream`: live updates of a user's inbox as Server-Sent Events (HTML standard, section 9.2).

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpRequest, HttpResponse};
use tokio::time::{Sleep, sleep};
use web::accept;
use web::failure::{Failure, valid_or_problems};
use web::idle;
use web::query::Query;

use crate::realtime::Hub;
use crate::realtime::connection::{OpenConnection, Transport, WRITE_INTERVAL};
use crate::realtime::credentials::{caller, with_query};
use crate::realtime::update::Update;

/// First line of a stream: the time in milliseconds after which a browser connects again.
const RETRY: &str = "retry: 3000\n\n";

/// Reports changes of the user's inbox as they happen.
///
/// The answer is a stream of Server-Sent Events, which stays open. Each event has an id. A client that connects again sends the
/// last id in `Last-Event-ID`, and receives what it has missed. `docs/realtime.md` describes the events.
#[utoipa::path(
    get,
    path = "/v3/stream",
    operation_id = "streamInbox",
    tag = "inbox",
    security(("user" = [])),
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has received."),
        ("lastEventId" = Option<String>, Query, description = "The same for clients that cannot set headers."),
        ("apiKey" = Option<String>, Query, description = "The API key, for clients that cannot set headers."),
        ("userId" = Option<String>, Query, description = "The user id, for clients that cannot set headers."),
        ("deviceId" = Option<String>, Query, description = "Accepted and ignored."),
    ),
    responses(
        (status = 200, description = "The events, until the client or the gateway ends the connection.", body = serde_json::Value, content_type = "text/event-stream", example = json!("id: k3f9-101\nevent: notification.deleted\ndata: {\"id\":4096,\"requestId\":null,\"unreadCount\":0,\"unseenCount\":0,\"reason\":\"deleted\"}\n\n")),
    ),
)]
pub(crate) async fn open(
    request: HttpRequest,
    hub: Data<Hub>,
    method: Method,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let headers = with_query(&request, &hub.sources.access, &query)?;
    let in_query = query.text("lastEventId", &mut problems);
    query.text("deviceId", &mut problems);
    let (client, principal, caller) = caller(&request, &headers, Transport::EventStream).await?;
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;
    accept::check_event_stream(&request)?;
    let last = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.map(str::to_owned).or(in_query);
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store, no-transform"))
        .insert_header((HeaderName::from_static("x-accel-buffering"), "no"));
    if method == Method::HEAD {
        return Ok(response.finish());
    }
    let connection =
        hub.open(client, principal, &caller, last.as_deref(), idle::Request::begin(&request)).await?;
    let body = EventStream { connection, text: RETRY.to_owned(), pause: None };
    response.message_body(BoxBody::new(body)).map_err(|error| Failure::Defect(error.to_string()))
}

/// The body of the answer. It ends with the connection. When the client goes away, it is dropped.
struct EventStream {
    connection: OpenConnection,
    /// Events that were not written yet.
    text: String,
    /// Pause before the next write.
    pause: Option<Pin<Box<Sleep>>>,
}

impl MessageBody for EventStream {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        match self.connection.poll_take(context) {
            Poll::Ready(Some(updates)) => {
                updates.iter().for_each(|update| write(&mut self.text, update));
                self.pause = Some(Box::pin(sleep(WRITE_INTERVAL)));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending if self.text.is_empty() => return Poll::Pending,
            Poll::Pending => {}
        }
        Poll::Ready(Some(Ok(Bytes::from(std::mem::take(&mut self.text)))))
    }
}

/// Appends an update in the format of the event stream.
fn write(text: &mut String, update: &Update) {
    let Some(name) = update.kind.name() else {
        text.push_str(":\n\n");
        return;
    };
    let data = match update.kind.data() {
        Ok(data) => data,
        Err(error) => {
            tracing::error!(%error, "cannot write an update; the client does not receive it");
            return;
        }
    };
    if let Some(moment) = update.moment {
        // Writing to a string cannot fail.
        writeln!(text, "id: {moment}").ok();
    }
    write!(text, "event: {name}\ndata: {data}\n\n").ok();
}
