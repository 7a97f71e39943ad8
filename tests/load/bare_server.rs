//! The minimum work of accepting a send durably: read HTTP, parse JSON, and wait for one acknowledgement of the log.

use std::net::SocketAddr;
use std::process::ExitCode;

use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpResponse, HttpServer};
use async_nats::jetstream;
use serde_json::{Value, json};

pub(crate) const LISTEN: &str = "LOAD_LISTEN";
pub(crate) const NATS: &str = "LOAD_NATS";
const STREAM: &str = "BARE";
/// Maximum number of unconfirmed messages, the same as in the services.
const MAX_UNCONFIRMED: usize = 16_384;

/// Serves until it is killed.
pub(crate) fn main() -> ExitCode {
    let listen: SocketAddr = std::env::var(LISTEN).unwrap().parse().unwrap();
    let nats = std::env::var(NATS).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(serve(listen, nats));
    ExitCode::SUCCESS
}

async fn serve(listen: SocketAddr, nats: String) {
    service_kit::install_crypto_provider();
    let client = async_nats::connect(nats).await.unwrap();
    let log = jetstream::context::ContextBuilder::new().max_ack_inflight(MAX_UNCONFIRMED).build(client);
    log.create_stream(jetstream::stream::Config {
        name: STREAM.to_owned(),
        subjects: vec![STREAM.to_owned()],
        storage: jetstream::stream::StorageType::File,
        discard: jetstream::stream::DiscardPolicy::New,
        ..jetstream::stream::Config::default()
    })
    .await
    .unwrap();
    let log = Data::new(log);
    let server = HttpServer::new(move || App::new().app_data(log.clone()).route("/", web::post().to(accept)));
    server.tcp_nodelay(true).bind(listen).unwrap().run().await.unwrap();
}

async fn accept(log: Data<jetstream::Context>, body: Bytes) -> HttpResponse {
    let Ok(parsed) = serde_json::from_slice::<Value>(&body) else {
        return HttpResponse::BadRequest().finish();
    };
    drop(parsed);
    let published = async { log.publish(STREAM, body).await?.await };
    match published.await {
        Ok(ack) => HttpResponse::Accepted().json(json!({"sequence": ack.sequence})),
        Err(error) => HttpResponse::ServiceUnavailable().body(error.to_string()),
    }
}
