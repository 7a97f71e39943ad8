use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{ConnectionNumber, Counts, Handler, Reply};

/// Maximum size of a request's body, in bytes.
const MAX_BODY: usize = 32 << 20;

pub(super) struct Connection {
    pub(super) number: ConnectionNumber,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) counts: Arc<Counts>,
    pub(super) max_concurrent_streams: Option<u32>,
    pub(super) go_away: watch::Receiver<u64>,
}

impl Connection {
    pub(super) async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // Errors of a connection are ignored: tests check the captured messages instead.
        drop(self.converse(stream, tls).await);
    }

    async fn converse(self, stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<()> {
        stream.set_nodelay(true)?;
        match tls {
            None => self.answer(stream).await,
            Some(tls) => self.answer(tls.accept(stream).await?).await,
        }
        Ok(())
    }

    async fn answer(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let cut = CancellationToken::new();
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(self.number);
            let (handler, counts, cut) = (self.handler.clone(), self.counts.clone(), cut.clone());
            async move { Ok::<_, Infallible>(reply(&*handler, &counts, &cut, request).await) }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http2().max_concurrent_streams(self.max_concurrent_streams);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = cut.cancelled() => return,
                Ok(()) = self.go_away.changed() => connection.as_mut().graceful_shutdown(),
            }
        }
    }
}

async fn reply(
    handler: &dyn Handler,
    counts: &Counts,
    cut: &CancellationToken,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        return super::status(413).map(Full::new);
    };
    counts.requests.fetch_add(1, Ordering::Relaxed);
    match handler.handle(&Request::from_parts(head, body.to_bytes())) {
        Reply::Answer(response) => response.map(Full::new),
        Reply::Stall => pending().await,
        Reply::Cut => {
            cut.cancel();
            pending().await
        }
    }
}
