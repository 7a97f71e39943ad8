//! The minimum work of a live connection: an actix-web server that keeps event streams open and writes nothing to them.

use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Mutex;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use tokio::sync::mpsc;

use crate::bare_server::LISTEN;

/// Senders of all open streams.
type Senders = Mutex<Vec<mpsc::Sender<Bytes>>>;

/// Body of a stream: what its sender sends.
struct Stream(mpsc::Receiver<Bytes>);

impl MessageBody for Stream {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(Ok))
    }
}

/// Serves until it is killed.
pub(crate) fn main() -> ExitCode {
    let listen: SocketAddr = std::env::var(LISTEN).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let senders = Data::new(Senders::default());
        let app = move || App::new().app_data(senders.clone()).route("/v3/stream", web::get().to(open));
        HttpServer::new(app).tcp_nodelay(true).bind(listen).unwrap().run().await.unwrap();
    });
    ExitCode::SUCCESS
}

async fn open(_: HttpRequest, senders: Data<Senders>) -> HttpResponse {
    let (sender, receiver) = mpsc::channel(8);
    sender.send(Bytes::from_static(b"event: ready\ndata: {}\n\n")).await.unwrap();
    senders.lock().unwrap().push(sender);
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream");
    response.message_body(BoxBody::new(Stream(receiver))).unwrap()
}
