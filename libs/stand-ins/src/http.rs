mod connection;
mod half;
mod script;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::interface;

pub use half::half_answer;
pub use hyper::body::Bytes;
pub use hyper::{Request, Response};
pub use script::{Answers, Reaction, Rule, Script};

pub trait Handler: Send + Sync + 'static {
    /// Must not block.
    fn handle(&self, request: &Request<Bytes>) -> Reply;
}

/// Number of the connection on which a request arrived, counted from 1. The server adds it to each request as an
/// extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionNumber(pub usize);

#[derive(Clone, Debug)]
pub enum Reply {
    Answer(Response<Bytes>),
    /// Closes the connection without an answer. Other requests on the same connection are not answered either.
    Cut,
    Stall,
}

#[derive(Clone, Default)]
pub struct HttpSettings {
    /// Port to listen on; 0 for a free port.
    pub port: u16,
    /// TLS configuration, with HTTP/2 if the client negotiates it by ALPN. None means plain connections, with HTTP/2 if
    /// the client starts with it (prior knowledge).
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Maximum number of concurrent requests on one HTTP/2 connection. None means the default of the HTTP library.
    pub max_concurrent_streams: Option<u32>,
}

#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    is_tls: bool,
    counts: Arc<Counts>,
    go_away: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl HttpServer {
    pub async fn start(settings: HttpSettings, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = TcpListener::bind((interface::ip(), settings.port)).await?;
        let address = listener.local_addr()?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (go_away, _) = watch::channel(0);
        let (counts, is_tls) = (Arc::<Counts>::default(), settings.tls.is_some());
        let accepting = Acceptor {
            listener,
            tls: settings.tls.map(TlsAcceptor::from),
            max_concurrent_streams: settings.max_concurrent_streams,
            handler,
            counts: counts.clone(),
            go_away: go_away.clone(),
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn(stop.clone().run_until_cancelled_owned(accepting.run()));
        Ok(HttpServer { address, is_tls, counts, go_away, stop, tasks })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Origin of the server's URLs, such as `http://127.0.0.1:8080`. With TLS, the host is `localhost`.
    #[must_use]
    pub fn url(&self) -> String {
        let port = self.address.port();
        if self.is_tls {
            format!("https://{}:{port}", interface::tls_host())
        } else {
            format!("http://{}:{port}", interface::host())
        }
    }

    #[must_use]
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Number of completely received requests since the start.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Asks every client to open a new connection (GOAWAY, RFC 9113 section 6.8). Requests in progress are still answered.
    pub fn go_away(&self) {
        self.go_away.send_modify(|orders| *orders += 1);
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Acceptor {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    max_concurrent_streams: Option<u32>,
    handler: Arc<dyn Handler>,
    counts: Arc<Counts>,
    go_away: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Acceptor {
    async fn run(self) {
        loop {
            // Accepting fails if no file descriptor is free. Try again after a pause.
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let before = self.counts.connections.fetch_add(1, Ordering::Relaxed);
            let connection = connection::Connection {
                number: ConnectionNumber(before + 1),
                handler: self.handler.clone(),
                counts: self.counts.clone(),
                max_concurrent_streams: self.max_concurrent_streams,
                go_away: self.go_away.subscribe(),
            };
            let serving = connection.serve(stream, self.tls.clone());
            self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(serving));
        }
    }
}

#[must_use]
pub fn json(status: u16, body: &serde_json::Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    let value = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, value);
    response
}

#[must_use]
pub fn status(status: u16) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}
