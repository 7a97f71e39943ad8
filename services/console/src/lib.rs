//! The console: pages for the people who run Tidings.
//!
//! `console` finds the page of a path; `session` finds the operator who asks. Pages call use cases of `operations`, which check the
//! operator's permissions, and render templates. Every page works without scripts.

mod admin;
mod answer;
mod changes;
mod client;
mod console;
mod files;
mod kept_text;
mod oidc;
mod pages;
mod query;
mod route;
mod session;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::web::{Data, Payload, to};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use anyhow::Context as _;
use operations::providers::KnownKind;
use service_kit::{Config, Context};
use tokio::net::TcpSocket;
use tokio::time::timeout;
use web::connections::SharedByPeers;

pub use admin::admin_routes;
pub use console::welcome_link;
pub use route::ROUTES;

use crate::console::Console;

const BACKLOG: u32 = 256;
const CONNECTIONS: usize = 512;
const WORKERS: usize = 2;
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(75);
const FINISHED_WITHIN_SECONDS: u64 = 10;
/// Time limit for receiving a form.
const FORM_WITHIN: Duration = Duration::from_secs(10);
/// Size in bytes. The largest of these forms has the settings of a provider, with keys and certificates.
const MAX_FORM: usize = 64 * 1024;
/// Size in bytes of a form with the texts of a template. Only operators may send one.
const MAX_TEXTS: usize = 2 * 1024 * 1024;

/// Serves the console on the configured address until the process stops. The socket already listens when this function returns the future.
/// `kinds` are the kinds of providers that operators can set.
///
/// # Errors
/// Returns an error if the process cannot listen on the address, or if the server fails.
///
/// # Panics
/// Panics outside of a Tokio runtime.
pub fn run(context: Context, kinds: &'static [KnownKind]) -> impl Future<Output = anyhow::Result<()>> {
    let address = context.config.console.listen;
    let listener = listen(address).with_context(|| format!("cannot listen on {address}"));
    async move { serve(context, kinds, listener?).await }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

async fn serve(context: Context, kinds: &'static [KnownKind], listener: TcpListener) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let console = Data::new(Console::new(&context, kinds)?);
    let connections = SharedByPeers::new(CONNECTIONS, &context.config.console.proxy_from);
    let server = HttpServer::new({
        let console = console.clone();
        move || {
            let app = App::new().app_data(console.clone()).app_data(console.admin.admission());
            app.default_service(to(handle))
        }
    })
    .on_connect(move |stream, connection| {
        if let Some(stream) = stream.downcast_ref() {
            connections.admit(stream, connection);
        }
    })
    .workers(WORKERS)
    .max_connections(CONNECTIONS)
    .client_request_timeout(HEAD_WITHIN)
    .keep_alive(KEEP_ALIVE)
    .shutdown_timeout(FINISHED_WITHIN_SECONDS)
    .disable_signals()
    .listen(listener)?
    .run();
    tracing::info!(%address, "serving the console");
    console.report_first_link(&console_url(&context.config)).await;
    let handle = server.handle();
    let stopping = context.tasks.clone();
    let stopped = async move {
        stopping.stopping().await;
        handle.stop(true).await;
    };
    let (served, ()) = tokio::join!(server, stopped);
    Ok(served?)
}

async fn handle(request: HttpRequest, payload: Payload, console: Data<Console>) -> HttpResponse {
    if admin::is_admin(&request, &console.base) {
        return admin::answer(&console, &request, payload.into_inner()).await;
    }
    let most = if console.has_texts(&request).await { MAX_TEXTS } else { MAX_FORM };
    match timeout(FORM_WITHIN, payload.to_bytes_limited(most)).await {
        Ok(Ok(Ok(form))) => console.answer(&request, &form).await,
        Ok(Ok(Err(_))) => HttpResponse::BadRequest().body("The form did not arrive whole.\n"),
        Ok(Err(_)) => console.refuse_large_form(most),
        Err(_) => HttpResponse::RequestTimeout().body("The form did not arrive in time.\n"),
    }
}

/// Returns the URL of the console, as operators reach it, without a trailing slash.
#[must_use]
pub fn console_url(config: &Config) -> String {
    let settings = &config.console;
    let public = settings.public_url.as_ref().map(|url| url.expose().trim_end_matches('/').to_owned());
    public.unwrap_or_else(|| format!("http://{}{}", settings.listen, settings.base_path))
}
