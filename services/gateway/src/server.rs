//! The HTTP server. It is built from the parts of actix-web's `HttpServer`, because each connection is read through an [`Inlet`].

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use crate::exchange::exchange;
use actix_http::{HttpService, Protocol};
use actix_server::{Server, ServerBuilder};
use actix_service::{IntoServiceFactory as _, ServiceFactoryExt as _, fn_service, map_config};
use actix_web::dev::AppConfig;
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::web::Data;
use actix_web::{App, Error};
use web::admission::Admission;
use web::declared::Declared;
use web::inlet::Inlet;

use crate::access::Access;
use crate::gateway::Gateway;
use crate::openapi::document::Document;
use crate::realtime::Hub;
use crate::routes;

/// Time for which a connection stays open between two requests. It is longer than the idle time of common proxies, so that a
/// proxy does not send a request on a connection that the gateway is closing.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Time limit for receiving the head (request line and headers) of a connection's first request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Time for which the rest of a request is dropped before its connection closes.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);
/// Seconds that requests in progress have to finish after the server has stopped accepting connections.
const FINISHED_WITHIN_SECONDS: u64 = 20;

/// App data that all requests share.
pub(crate) struct Shared {
    pub(crate) admission: Data<Admission>,
    pub(crate) access: Data<Access>,
    pub(crate) gateway: Data<Gateway>,
    pub(crate) realtime: Data<Hub>,
    pub(crate) document: Data<Document>,
    pub(crate) declared: Data<Declared>,
}

/// Serves the API on the listener. Stops accepting connections when `stopping` ends.
pub(crate) fn start(
    listener: TcpListener,
    shared: Shared,
    stopping: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Server> {
    let builder = ServerBuilder::default();
    let shutdown = builder.graceful_shutdown_signal();
    let builder = builder.shutdown_signal(stopping).shutdown_timeout(FINISHED_WITHIN_SECONDS);
    let builder = builder.listen("api", listener, move || {
        let (connections, shutdown) = (shared.admission.connections.clone(), shutdown.clone());
        let app = App::new()
            .app_data(shared.admission.clone())
            .app_data(shared.access.clone())
            .app_data(shared.gateway.clone())
            .app_data(shared.realtime.clone())
            .app_data(shared.document.clone())
            .app_data(shared.declared.clone())
            .configure(routes::routes)
            .wrap(from_fn(exchange));
        let app = app.into_factory().map_err(|error: Error| error.error_response());
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let shutdown = shutdown.clone();
                async move { shutdown.notified().await }
            })
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_WITHIN)
            .client_disconnect_timeout(DROPPED_WITHIN)
            .on_connect_ext(move |inlet: &Inlet, connection| connections.admit(inlet, connection))
            .finish(map_config(app, |()| AppConfig::default()));
        fn_service(|stream: TcpStream| async {
            // Without it, a small answer may wait for an acknowledgement.
            stream.set_nodelay(true).ok();
            let peer = stream.peer_addr().ok();
            Ok((Inlet::new(stream), Protocol::Http1, peer))
        })
        .and_then(http)
    })?;
    Ok(builder.run())
}
