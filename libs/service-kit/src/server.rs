//! `/metrics`, `/healthz` and `/readyz`, on a separate port. Its page `/` links to them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::{Context, Readiness, metrics};

/// More than all scrapers and probes of an installation need.
const MAX_CONNECTIONS: usize = 64;
/// Time limit of a connection, which serves one request.
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
/// Pause after a failure to accept a connection, usually because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const PAGE: &str = include_str!("server/page.html");
const PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, thiserror::Error)]
#[error("metrics.listen: cannot listen on {address}")]
pub struct ServerError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Starts the server on `metrics.listen`, once per process. The returned address differs from the configured one if the configured port is
/// 0.
pub async fn start(context: &Context) -> Result<SocketAddr, ServerError> {
    let address = context.config.metrics.listen;
    let failed = |source| ServerError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    context.spawn("metrics upkeep", metrics::run_upkeep(context.tasks.clone()));
    context.spawn("metrics server", accept(listener, context.clone()));
    tracing::info!(%address, "serving metrics and health");
    Ok(address)
}

async fn accept(listener: TcpListener, context: Context) -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await?;
            anyhow::Ok((place, listener.accept().await))
        };
        let (place, accepted) = tokio::select! {
            () = context.tasks.stopping() => return Ok(()),
            accepted = accepted => accepted?,
        };
        match accepted {
            Ok((stream, _)) => {
                let served = context.clone();
                context.spawn("metrics connection", async move {
                    serve(stream, served).await;
                    drop(place);
                    Ok(())
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a metrics connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, context: Context) {
    let service = service_fn(|request| answer(request, &context));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION_LIMIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a metrics connection failed"),
        Err(_) => tracing::debug!("a metrics connection was too slow; closed it"),
    }
}

async fn answer(request: Request<Incoming>, context: &Context) -> Result<Response<Full<Bytes>>, Infallible> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Ok(response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".into()));
    }
    Ok(match request.uri().path() {
        "/" => {
            let mut page = response(StatusCode::OK, HTML, PAGE.into());
            page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
            page
        }
        "/metrics" => {
            metrics::observe(&context.store);
            response(StatusCode::OK, PROMETHEUS, metrics::render())
        }
        "/healthz" => response(StatusCode::OK, JSON, r#"{"status":"ok"}"#.into()),
        "/readyz" => ready(&context.readiness).await,
        _ => response(StatusCode::NOT_FOUND, TEXT, "/metrics, /healthz, /readyz\n".into()),
    })
}

async fn ready(readiness: &Readiness) -> Response<Full<Bytes>> {
    let report = readiness.check().await;
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match serde_json::to_string(&report) {
        Ok(body) => response(status, JSON, body),
        Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
