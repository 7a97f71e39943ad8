//! HTTP API of an outbox: `GET /messages?channel=&to=` and `DELETE /messages`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Outbox;
use super::view::CaptureView;
use crate::interface;

const MAX_CONNECTIONS: usize = 64;
const HEADER_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct OutboxServer {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl OutboxServer {
    pub async fn start(port: u16, outbox: Arc<Outbox>) -> io::Result<Self> {
        let listener = TcpListener::bind((interface::ip(), port)).await?;
        let address = listener.local_addr()?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, outbox, stop.clone(), tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(OutboxServer { address, stop, tasks })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}:{}", interface::host(), self.address.port())
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for OutboxServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, outbox: Arc<Outbox>, stop: CancellationToken, tasks: TaskTracker) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(permit) = room.clone().acquire_owned().await {
        // Accepting fails if no file descriptor is free. Try again after a pause.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let outbox = outbox.clone();
        let serving = async move {
            let _permit = permit;
            serve(stream, outbox).await;
        };
        tasks.spawn(stop.clone().run_until_cancelled_owned(serving));
    }
}

async fn serve(stream: TcpStream, outbox: Arc<Outbox>) {
    let service = service_fn(|request: Request<Incoming>| {
        let outbox = outbox.clone();
        async move { Ok::<_, Infallible>(answer(&request, &outbox)) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    // An error only means that the client disconnected during a request.
    drop(served);
}

fn answer(request: &Request<Incoming>, outbox: &Outbox) -> Response<Full<Bytes>> {
    if !interface::is_own_host(request.headers()) {
        let mut refused = status(StatusCode::FORBIDDEN);
        *refused.body_mut() = Full::new(Bytes::from_static(interface::FOREIGN_HOST.as_bytes()));
        return refused;
    }
    if request.uri().path() != "/messages" {
        return status(StatusCode::NOT_FOUND);
    }
    match *request.method() {
        Method::GET => list(request.uri().query().unwrap_or_default(), outbox),
        Method::DELETE => match outbox.clear() {
            Ok(()) => status(StatusCode::NO_CONTENT),
            Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
        },
        _ => {
            let mut refused = status(StatusCode::METHOD_NOT_ALLOWED);
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, DELETE"));
            refused
        }
    }
}

fn list(query: &str, outbox: &Outbox) -> Response<Full<Bytes>> {
    let (channel, to) = (parameter(query, "channel"), parameter(query, "to"));
    let captures = outbox.captures();
    let shown = captures
        .iter()
        .filter(|capture| channel.as_ref().is_none_or(|channel| *channel == capture.channel))
        .filter(|capture| to.as_ref().is_none_or(|to| capture.to.contains(to)))
        .map(|capture| CaptureView::of(capture))
        .collect::<Vec<_>>();
    match serde_json::to_vec(&serde_json::json!({ "data": shown })) {
        Ok(body) => {
            let mut response = Response::new(Full::new(Bytes::from(body)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Returns the value of a query parameter, or None if it is absent or empty.
fn parameter(query: &str, name: &str) -> Option<String> {
    let raw = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))?;
    let spaced = raw.replace('+', " ");
    let value = percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
