//! Malformed and random requests. Every answer must arrive, conform to the OpenAPI document, and have a status other than 500.
//!
//! By default the test sends a few thousand requests. `TIDINGS_FUZZ_REQUESTS=100000 cargo test -p suite --test api fuzz --
//! --nocapture` sends a hundred thousand. `TIDINGS_FUZZ_SEED` selects other requests. A failure message names the seed.

mod chance;
mod connection;
mod json;
mod operation;
mod request;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::chance::Chance;
use self::connection::{Connection, Reply};
use self::operation::Operation;
use self::request::{Framing, KnownResources, Request};
use crate::contract::{Contract, Exchange};
use crate::service::{SOON, Service};

const REQUESTS: u64 = 4_000;
const CONNECTIONS: u64 = 4;

/// Number of answers by status. A connection that ends without an answer counts as status 0.
type Counts = BTreeMap<u16, u64>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_malformed_request_causes_a_500_or_a_slow_answer() {
    let service = Service::start().await;
    let known = Arc::new(create_resources(&service).await);
    let url = format!("http://{}", service.address).parse().unwrap();
    let contract = Contract::of(&reqwest::Client::new(), &url).await;
    let operations = Arc::new(Operation::all(contract.document()));
    let (requests, seed) = (setting("TIDINGS_FUZZ_REQUESTS", REQUESTS), setting("TIDINGS_FUZZ_SEED", 1));
    let mut connections = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (known, operations, address) = (known.clone(), operations.clone(), service.address);
        connections.spawn(async move {
            let mut connection = Connection::new(address);
            let mut counts = Counts::new();
            for index in (number..requests).step_by(usize::try_from(CONNECTIONS).unwrap()) {
                let request = Request::random(&mut Chance::new(seed, index), &operations, &known);
                let status = exchange(&mut connection, &request, contract)
                    .await
                    .unwrap_or_else(|problem| panic!("seed {seed}, request {index}: {problem}\n{request}"));
                *counts.entry(status).or_default() += 1;
            }
            counts
        });
    }
    let mut counts = Counts::new();
    for (status, count) in connections.join_all().await.into_iter().flatten() {
        *counts.entry(status).or_default() += count;
    }
    println!("{requests} requests by status: {counts:?}");
    assert_eq!(counts.values().sum::<u64>(), requests);
    let successes: u64 = counts.range(200..300).map(|(_, count)| count).sum();
    assert!(successes > requests / 10, "too few requests succeed: {counts:?}");
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Creates an app with a user, items in the inbox, a category and a send.
async fn create_resources(service: &Service) -> KnownResources {
    let app = service.app("shop").await;
    service.deliver(&app, "ada", 20).await;
    let category = json!({"identifier": "orders", "name": "Orders"});
    let category = service.by(&app, "POST /v3/categories").json(&category).send().await.is(200);
    let send = crate::service::plain_send(&["ada"]);
    let receipt = service.by(&app, "POST /v3/notifications").json(&send).send().await.is(202);
    let list = service.list(&app, "ada", "limit=20").await;
    let items = list["data"].as_array().unwrap().iter().map(|item| item["id"].to_string()).collect();
    KnownResources {
        key: app.key,
        secret: app.secret,
        items,
        category: category["id"].to_string(),
        request: receipt["requestId"].as_str().unwrap().to_owned(),
    }
}

/// Sends a request, and returns the status of its answer, or a description of what is wrong with the answer.
async fn exchange(
    connection: &mut Connection,
    request: &Request,
    contract: &Contract,
) -> Result<u16, String> {
    // A limit that a slow machine keeps. The tests of `fairness::waiting` prove that a request waits at most 2.5 s for servers.
    let answer = timeout(SOON, connection.exchange(request));
    let reply = match answer.await.map_err(|_| "no answer in time".to_owned())? {
        Ok(reply) => reply,
        Err(_) if request.framing == Framing::Broken => return Ok(0),
        Err(error) => return Err(format!("the connection failed: {error}")),
    };
    let Reply { status, headers, body } = &reply;
    if *status == 500 {
        return Err(format!("the status is 500: {body}"));
    }
    // The HTTP library rejects input that is not HTTP before the gateway sees it, so its 400 has no body.
    if request.framing == Framing::Broken && *status == 400 && body.is_empty() {
        return Ok(*status);
    }
    let exchange = Exchange { method: &request.method, path: request.path(), status: *status, headers, body };
    match contract.problems(&exchange) {
        problems if problems.is_empty() => Ok(*status),
        problems => Err(format!("{status} {body}\n{}", problems.join("\n"))),
    }
}
