//! Callers with a public key patch one user's profile as fast as they can, and their app sends to that user: how that
//! changes what another app gets of the same services.

use std::fmt;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use testkit::eventually;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::callers::pace;
use crate::generator::Request;
use crate::scale::Scale;
use crate::system::System;

const SOON: Duration = Duration::from_secs(60);
const PATCHING_CLIENTS: usize = 4;
/// As many operations as a caller without the secret may make, on a profile as large as their budget allows.
const OPERATIONS: usize = 100;
const PROFILE: usize = 10_000;
/// Between two sends whose way to the inbox is measured, and between two sends to the user who is patched.
const PACE: Duration = Duration::from_millis(100);
/// Between two looks at an inbox. What is measured is longer by one look at most.
const LOOK: Duration = Duration::from_millis(2);
/// By how much the attack may slow another app down.
const FACTOR: f64 = 2.0;

/// What one app got.
struct Service {
    /// Sends accepted a second, over one connection.
    accepted: f64,
    /// From 202 to the inbox, in the median.
    median: Duration,
}

/// What came of it.
pub(crate) struct Report {
    alone: Service,
    beside: Service,
    patches: usize,
}

/// Measures one app alone, then beside another app's patches.
pub(crate) async fn run(scale: &Scale) -> Report {
    let programs = ["tidings-gateway", "tidings-dispatcher", "tidings-inbox"];
    let system = System::start(&programs, &[("TIDINGS_GATEWAY__RATE_LIMIT", "100000")]).await;
    let victim = system.another_app("victim");
    let client = Client::new();
    measured(&system, &client, scale.span / 4).await;
    let alone = measured(&system, &client, scale.span).await;
    let mut attackers = JoinSet::new();
    for number in 0..PATCHING_CLIENTS {
        attackers.spawn(patch(victim.clone(), number, scale.span));
    }
    attackers.spawn(send_inline(victim, scale.span));
    let beside = measured(&system, &client, scale.span).await;
    let patches = attackers.join_all().await.into_iter().sum();
    let report = Report { alone, beside, patches };
    report.check();
    report
}

/// Patches one user until the time is over; returns how often that was accepted.
async fn patch(request: Request, number: usize, span: Duration) -> usize {
    let (client, begin, mut accepted) = (Client::new(), Instant::now(), 0);
    let url = request.url.replace("/v3/notifications", "/v3/profile");
    let profile = json!({"filler": "x".repeat(PROFILE), "small": 0});
    let call = |method, body: &Value| {
        let call = client.request(method, &url).header("X-SERVICE-API-KEY", &request.key);
        call.header("X-SERVICE-USER-ID", "patched").json(body).send()
    };
    call(reqwest::Method::PUT, &profile).await.unwrap();
    let operation = |value: usize| json!({"op": "replace", "path": "/small", "value": value + number});
    let operations: Vec<_> = (0..OPERATIONS).map(operation).collect();
    while begin.elapsed() < span {
        let answer = call(reqwest::Method::PATCH, &json!(operations)).await.unwrap();
        accepted += usize::from(answer.status().is_success());
    }
    accepted
}

/// Sends to the user who is patched, with an inline profile.
async fn send_inline(request: Request, span: Duration) -> usize {
    let (client, begin, mut pace) = (Client::new(), Instant::now(), pace(PACE));
    let send = json!({
        "notification": {"title": "to whom is patched"},
        "sendTo": {"recipients": [{"identifier": "patched", "name": "Ada"}]},
    });
    while begin.elapsed() < span {
        pace.tick().await;
        request.send(&client, &send).await;
    }
    0
}

/// What the first app gets for a while.
async fn measured(system: &System, client: &Client, span: Duration) -> Service {
    let (accepted, latencies) = tokio::join!(accepted(system, client, span), latencies(system, client, span));
    let mut latencies = latencies;
    latencies.sort_unstable();
    Service { accepted, median: latencies[latencies.len() / 2] }
}

fn body(recipient: &str) -> Value {
    json!({"notification": {"title": "hello"}, "sendTo": {"recipients": [{"identifier": recipient}]}})
}

async fn accepted(system: &System, client: &Client, span: Duration) -> f64 {
    let (request, begin, mut accepted) = (system.request(), Instant::now(), 0_u32);
    while begin.elapsed() < span {
        accepted += u32::from(request.send(client, &body("many")).await.status() == 202);
    }
    f64::from(accepted) / begin.elapsed().as_secs_f64()
}

async fn latencies(system: &System, client: &Client, span: Duration) -> Vec<Duration> {
    let (request, begin, mut pace, mut latencies) =
        (system.request(), Instant::now(), pace(PACE), Vec::new());
    while begin.elapsed() < span {
        pace.tick().await;
        let answer = request.send(client, &body("one")).await;
        if answer.status() != 202 {
            continue;
        }
        let accepted = Instant::now();
        let answer: Value = answer.json().await.unwrap();
        let send: Uuid = answer["requestId"].as_str().unwrap().parse().unwrap();
        let mut look = tokio::time::interval(LOOK);
        eventually(SOON, "a send arrives", async || {
            look.tick().await;
            let items: i64 = sqlx::query_scalar("SELECT count(*) FROM inbox_item WHERE send_id = $1")
                .bind(send)
                .fetch_one(&system.database)
                .await
                .unwrap();
            (items == 1).then_some(())
        })
        .await;
        latencies.push(accepted.elapsed());
    }
    latencies
}

impl Report {
    fn check(&self) {
        assert!(self.patches > 0, "no patch was accepted: {self}");
        assert!(self.beside.accepted * FACTOR >= self.alone.accepted, "{self}");
        let most = self.alone.median.mul_f64(FACTOR) + 2 * LOOK;
        assert!(self.beside.median <= most, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { alone, beside, patches } = self;
        write!(
            f,
            "patches: {patches} of {PATCHING_CLIENTS} clients were accepted; another app: {:.0} sends a second alone, {:.0} \
             beside them; 202 to inbox in the median {:?} alone, {:?} beside them",
            alone.accepted, beside.accepted, alone.median, beside.median,
        )
    }
}
