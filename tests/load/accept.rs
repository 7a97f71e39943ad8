//! Number of sends accepted per second: by the gateway with and without an Idempotency-Key, compared with the bare server.

use std::net::SocketAddr;
use std::time::Duration;

use local_servers::port;
use serde::Serialize;
use serde_json::json;
use suite::cpu::Processes;
use testkit::{Service, eventually};

use crate::bare_server;
use crate::connections::{Request, drive};
use crate::installation::Installation;
use crate::role::Role;
use crate::series::Series;

const SOON: Duration = Duration::from_secs(30);
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of keys reserved for one measurement.
const KEYS: u64 = 1_000_000_000;

/// Results of one server, by round.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Accepted {
    pub(crate) name: &'static str,
    pub(crate) per_second: Series,
    pub(crate) p50_millis: Series,
    pub(crate) p99_millis: Series,
    /// Processor time for one send.
    pub(crate) server_micros: Series,
    pub(crate) nats_micros: Series,
    pub(crate) postgres_micros: Series,
}

struct Subject {
    address: SocketAddr,
    request: Request,
    server: Processes,
    accepted: Accepted,
}

/// Measures the servers. The results of the bare server come first.
pub(crate) async fn measure(installation: &Installation, rounds: u32, span: Duration) -> Vec<Accepted> {
    let (gateway_at, bare_at) = (free_address(), free_address());
    let gateway = installation.serve(Role::Gateway, &[("TIDINGS_GATEWAY__LISTEN", &gateway_at.to_string())]);
    let bare = Role::BareServer
        .start(&[(bare_server::LISTEN, &bare_at.to_string()), (bare_server::NATS, installation.nats_url())]);
    let mut subjects = subjects(installation, (&gateway, gateway_at), (&bare, bare_at));
    let mut next_key = 0;
    for subject in &mut subjects {
        await_listening(subject.address).await;
        drive(subject.address, &subject.request, WARM_UP, next_key).await;
        next_key += KEYS;
    }
    let counted = (Processes::named("nats-server"), Processes::named("postgres"));
    for round in 1..=rounds {
        eprintln!("accept: round {round} of {rounds}");
        for subject in &mut subjects {
            installation.settle().await;
            subject.measure(counted, span, next_key).await;
            next_key += KEYS;
        }
        // Rotate the order, so that a different server runs first in each round.
        subjects.rotate_left(1);
    }
    subjects.sort_by_key(|subject| subject.accepted.name);
    subjects.into_iter().map(|subject| subject.accepted).collect()
}

pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port::free().unwrap()))
}

fn subjects(
    installation: &Installation,
    gateway: (&Service, SocketAddr),
    bare: (&Service, SocketAddr),
) -> Vec<Subject> {
    let body = json!({
        "notification": {
            "title": "Your order is on its way",
            "message": "Order 4711 left our house this morning and arrives tomorrow before noon.",
            "url": "https://shop.example.com/orders/4711",
        },
        "sendTo": {"recipients": ["customer-4711"]},
        "category": "orders",
        "data": {"order": 4711, "carrier": "Post", "parcels": [1, 2]},
    })
    .to_string();
    let credentials =
        [("X-SERVICE-API-KEY", &*installation.api_key), ("X-SERVICE-API-SECRET", &*installation.api_secret)];
    let to_gateway = |with_key| Request::post("/v3/notifications", &credentials, with_key, &body);
    let subject = |name, (server, address): (&Service, SocketAddr), request| Subject {
        address,
        request,
        server: Processes::below(server.id()),
        accepted: Accepted {
            name,
            per_second: Series::default(),
            p50_millis: Series::default(),
            p99_millis: Series::default(),
            server_micros: Series::default(),
            nats_micros: Series::default(),
            postgres_micros: Series::default(),
        },
    };
    vec![
        subject("bare", bare, Request::post("/", &[], false, &body)),
        subject("gateway", gateway, to_gateway(false)),
        subject("gateway, with Idempotency-Key", gateway, to_gateway(true)),
    ]
}

pub(crate) async fn await_listening(address: SocketAddr) {
    eventually(SOON, "the server listens", async || tokio::net::TcpStream::connect(address).await.ok()).await;
}

impl Subject {
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(
        &mut self,
        (nats, postgres): (Option<Processes>, Option<Processes>),
        span: Duration,
        first_key: u64,
    ) {
        let used = || [Some(self.server), nats, postgres].map(|some| some.map_or(0, Processes::micros));
        let before = used();
        let driven = drive(self.address, &self.request, span, first_key).await;
        let after = used();
        let each = |index: usize| (after[index] - before[index]) as f64 / driven.latencies.len() as f64;
        let accepted = &mut self.accepted;
        accepted.server_micros.push(each(0));
        accepted.nats_micros.push(each(1));
        accepted.postgres_micros.push(each(2));
        accepted.per_second.push(driven.per_second());
        accepted.p50_millis.push(driven.quantile(0.5).as_secs_f64() * 1e3);
        accepted.p99_millis.push(driven.quantile(0.99).as_secs_f64() * 1e3);
    }
}
