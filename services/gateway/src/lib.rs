//! The gateway: the v3 API over HTTP.
//!
//! Every request first passes the middleware `exchange`. `routes` then finds its handler, and the argument types of the
//! handler state which callers may call it. Every change is stored in the event log or the database before the gateway answers.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod accepted;
mod access;
mod base_path;
mod clients;
mod deliveries;
mod directory;
mod exchange;
mod front;
mod gateway;
mod handbook;
mod health;
mod inbox;
mod openapi;
mod realtime;
mod rendered_file;
mod routes;
mod sends;
mod server;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use anyhow::Context as _;
use service_kit::Context;
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use web::admission::Admission;
use web::declared::Declared;

pub use web::body::{MAX_BODY, MAX_BODY_WITH_FILES, MAX_CALLBACK, MAX_USER_BODY};

/// Limits that no setting changes. A test compares `docs/limits.md` with them.
pub mod limits {
    pub use crate::access::apps::LOOK_UPS;
    pub use crate::directory::profile::OPERATIONS_OF_A_REQUEST;
    pub use crate::directory::subscriptions::USERS_OF_A_CHANGE;
    pub use crate::inbox::place::LONGEST_SNOOZE;
    pub use crate::realtime::connection::{QUEUED, QUEUED_BYTES};
    pub use crate::realtime::crowd::PER_USER;
    pub use crate::realtime::entrance::OPENED_PER_SECOND;
    pub use crate::realtime::socket_io::session::{CONNECT_WITHIN, PACKETS};
    pub use crate::realtime::web_socket::{MAX_FRAME, MAX_UNREAD, MESSAGE_ROOM};
    pub use fairness::waiting::STEP;
    pub use web::admission::{ANSWER_ROOM, BODY_ROOM, CALLBACK_ROOM, FILE_ROOM};
    pub use web::body::{BYTES_OF_A_REQUEST, CALLBACK_WITHIN, GRACE, SENT_WITHIN, SLOWEST};
    pub use web::connections::STALLED_FOR;
    pub use web::idle::{IDLE_AT_MOST, IDLE_WHILE_SCARCE};
    pub use web::inlet::MAX_HEAD;
    pub use web::structure::{MAX_CONTAINERS, MAX_USER_CONTAINERS};
}

use crate::access::Access;
use crate::gateway::Gateway;
use crate::openapi::document::Document;
use crate::realtime::Sources;
use crate::server::Shared;

/// Maximum number of TCP connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Time that connections over WebSocket have to end after the server has ended.
const FINISHED_WITHIN: Duration = Duration::from_secs(1);

/// Serves the API on the configured address until the process stops. The socket already listens when this function returns the
/// future, so that clients can connect as soon as the process reports ready.
///
/// # Errors
/// Returns an error if the process cannot listen on the address, or if the server fails.
///
/// # Panics
/// Panics outside of a Tokio runtime.
pub fn run(context: Context) -> impl Future<Output = anyhow::Result<()>> {
    let address = context.config.gateway.listen;
    let listener = listen(address).with_context(|| format!("cannot listen on {address}"));
    async move { serve(context, listener?).await }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Without this option, a restart would fail until the connections of the previous process have left TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// Serves the API on a socket that already listens, until the process stops.
///
/// # Errors
/// Returns an error if the gateway cannot be built, or if the server fails.
pub async fn serve(context: Context, listener: TcpListener) -> anyhow::Result<()> {
    context.readiness.serve_without_servers();
    let served = CancellationToken::new();
    let _ends_with_us = served.clone().drop_guard();
    let (admission, access) = (Admission::start(&context, &served), Access::new(&context)?);
    let gateway = Gateway::start(&context, &served);
    let sources = Sources {
        store: context.store.clone(),
        log: context.log.clone(),
        inboxes: Arc::clone(&gateway.inboxes),
        positions: gateway.inboxes.positions().clone(),
        access: access.clone().into_inner(),
        admission: admission.clone().into_inner(),
        partitions: context.partitions,
    };
    let realtime = realtime::start(&context, sources, &served);
    let prefix = context.config.header_prefixes.first().context("header_prefixes is empty")?;
    let description = openapi::describe(prefix).context("the OpenAPI document")?;
    let declared = Data::new(Declared::read(&description));
    let document = Data::new(Document::new(description)?);
    let (refusing, storing, ended) = (access.clone(), gateway.clone(), served.clone());
    context.spawn("refused calls", async move {
        refusing.refused_calls.store_until(ended, &storing.operations).await;
        Ok(())
    });
    let address = listener.local_addr()?;
    let sockets = realtime.sockets.clone();
    let shared = Shared { admission, access, gateway, realtime, document, declared };
    let server = server::start(listener, shared, until_drained(context))?;
    tracing::info!(%address, "serving the API");
    server.await?;
    sockets.close();
    if timeout(FINISHED_WITHIN, sockets.wait()).await.is_err() {
        tracing::warn!("some live connections did not end in time; closing them");
    }
    Ok(())
}

/// Waits until the process starts to stop, and then for the configured time `drain`. During `drain`, `/readyz` reports to the
/// load balancer that the process is stopping, and every answer closes its connection. Afterwards, the server stops accepting
/// connections.
async fn until_drained(context: Context) {
    context.tasks.stopping().await;
    sleep(context.config.gateway.drain).await;
}
