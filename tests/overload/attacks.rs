//! Throughput and latency of one app's sends during an attack on the gateway, compared with the figures without the attack. The
//! attacker knows no secret. In an earlier release, each of these attacks stopped the sends of all apps.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use suite::{Role, pace};
use testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::generator::Request;
use crate::scale::Scale;
use crate::system::System;

const SOON: Duration = Duration::from_secs(60);
/// Maximum factor by which either figure may be worse than without the attack.
const FACTOR: f64 = 2.0;
/// Interval between two measured sends.
const PACE: Duration = Duration::from_millis(100);
/// Poll interval of an inbox, which is also the precision of a measurement.
const LOOK: Duration = Duration::from_millis(2);

/// IP address of the attacker. It differs from the address of the measured app, so the gateway counts them as separate peers.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 66, 1);
/// Number of connections that send an unfinished request. A closed connection is opened again.
const STALLED: usize = 160;
const STALLED_PACE: Duration = Duration::from_secs(1);
/// Maximum size of a body from a caller without the secret.
const BODY: usize = 128 * 1024;
/// Maximum size of a provider's callback.
const CALLBACK: usize = 16 * 1024;
/// Number of connections with a wrong key or secret.
const GUESSING: usize = 8;
/// Interval of the requests on each of these connections.
const GUESSING_PACE: Duration = Duration::from_millis(40);
/// Number of clients that patch one profile.
const PATCHING: usize = 4;
/// Interval of each client's patches. All clients together exceed the rate limit of a user.
const PATCHING_PACE: Duration = Duration::from_millis(16);
/// Number of operations per patch: the maximum for a caller without the secret.
const OPERATIONS: usize = 100;
/// Size of the profile in bytes: the largest for which the work budget of a patch (operations times bytes) allows [`OPERATIONS`].
const PROFILE: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// Calls with only the app's public API key that never send the last byte of their bodies.
    Bodies,
    /// Patches of one user's profile with only the app's public API key, while the app of this user also makes sends to the user.
    Patches,
    /// Callbacks without credentials that never send the last byte of their bodies.
    Callbacks,
    /// Calls with the key of the measured app and a wrong secret, and calls with unknown keys.
    Guesses,
}

/// Sends per second over one connection, and the median time from 202 to the inbox.
#[derive(Clone, Copy, Debug)]
struct Figures {
    per_second: f64,
    median: Duration,
}

/// Figures without and with each attack.
pub(crate) struct Report(Vec<(Attack, Figures, Figures)>);

/// Measures an app's sends before, during and after each attack. The figures without the attack are the worse of those
/// before and after it, because the machine may become busy between two measurements.
pub(crate) async fn run(scale: &Scale) -> Report {
    let system = System::start(&[Role::Gateway, Role::Dispatcher, Role::Inbox], &[]).await;
    let victim = system.another_app("victim");
    figures(&system, scale.span / 4).await;
    let mut report = Report(Vec::new());
    let mut before = figures(&system, scale.span).await;
    for attack in [Attack::Bodies, Attack::Patches, Attack::Callbacks, Attack::Guesses] {
        let under_way = attack.begin(&system, &victim).await;
        let beside = figures(&system, scale.span).await;
        drop(under_way);
        let after = figures(&system, scale.span).await;
        report.0.push((attack, before.worse(after), beside));
        before = after;
    }
    report.check();
    report
}

impl Figures {
    fn worse(self, other: Figures) -> Figures {
        Figures { per_second: self.per_second.min(other.per_second), median: self.median.max(other.median) }
    }
}

impl Attack {
    /// Starts an attack that lasts until the returned value is dropped.
    async fn begin(self, system: &System, victim: &Request) -> JoinSet<()> {
        let mut under_way = JoinSet::new();
        let address = system.address();
        match self {
            Attack::Bodies => {
                let head = format!("PUT /v3/profile HTTP/1.1\r\n{}", of_user(victim, "mallory"));
                for _ in 0..STALLED {
                    under_way.spawn(repeat(address, stalled(&head, BODY), STALLED_PACE));
                }
            }
            Attack::Callbacks => {
                let head = "POST /v3/callbacks/twilio/1/main/messages HTTP/1.1\r\n\
                            Content-Type: application/x-www-form-urlencoded\r\n\
                            X-Twilio-Signature: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n";
                for _ in 0..STALLED {
                    under_way.spawn(repeat(address, stalled(head, CALLBACK), STALLED_PACE));
                }
            }
            Attack::Guesses => {
                for number in 0..GUESSING {
                    let key = if number % 2 == 0 { system.request().key } else { format!("none{number}") };
                    let request = format!(
                        "GET /v3/categories HTTP/1.1\r\nHost: x\r\nX-SERVICE-API-KEY: {key}\r\n\
                         X-SERVICE-API-SECRET: wrong\r\nConnection: close\r\n\r\n"
                    );
                    under_way.spawn(repeat(address, request.into_bytes(), GUESSING_PACE));
                }
            }
            Attack::Patches => {
                let patch = patch_of_profile(victim).await;
                for _ in 0..PATCHING {
                    under_way.spawn(repeat(address, patch.clone(), PATCHING_PACE));
                }
                under_way.spawn(send_inline(victim.clone()));
            }
        }
        under_way
    }
}

fn of_user(request: &Request, user: &str) -> String {
    format!(
        "Content-Type: application/json\r\nX-SERVICE-API-KEY: {}\r\nX-SERVICE-USER-ID: {user}\r\n",
        request.key
    )
}

/// Builds a request without its last byte.
fn stalled(head: &str, body: usize) -> Vec<u8> {
    let mut request = format!("{head}Host: x\r\nContent-Length: {body}\r\n\r\n").into_bytes();
    request.resize(request.len() + body - 1, b' ');
    request
}

/// Repeatedly writes these bytes on a new connection and waits for the answer.
async fn repeat(address: SocketAddr, request: Vec<u8>, every: Duration) {
    let mut pace = pace(every);
    loop {
        pace.tick().await;
        // Ignore the answer: only the load on the gateway matters.
        drop(exchange(address, &request).await);
    }
}

async fn exchange(address: SocketAddr, request: &[u8]) -> std::io::Result<usize> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((STRANGER, 0).into())?;
    let mut connection = socket.connect(address).await?;
    connection.write_all(request).await?;
    connection.read(&mut [0; 64]).await
}

/// Creates the profile, and patches it once; returns the patch to repeat.
async fn patch_of_profile(victim: &Request) -> Vec<u8> {
    let (client, url) = (Client::new(), victim.url.replace("/v3/notifications", "/v3/profile"));
    let operations: Vec<_> =
        (0..OPERATIONS).map(|value| json!({"op": "replace", "path": "/small", "value": value})).collect();
    let patch = json!(operations).to_string();
    let profile = json!({"filler": "x".repeat(PROFILE), "small": 0}).to_string();
    for (method, body) in [(reqwest::Method::PUT, profile), (reqwest::Method::PATCH, patch.clone())] {
        let call = client.request(method, &url).header("X-SERVICE-API-KEY", &victim.key);
        let call = call.header("X-SERVICE-USER-ID", "patched").header("Content-Type", "application/json");
        let answer = call.body(body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
    }
    format!(
        "PATCH /v3/profile HTTP/1.1\r\n{}Host: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{patch}",
        of_user(victim, "patched"),
        patch.len()
    )
    .into_bytes()
}

/// Repeatedly sends to the user whose profile is patched. The send contains an inline profile.
async fn send_inline(request: Request) {
    let (client, mut pace) = (Client::new(), pace(PACE));
    let send = json!({
        "notification": {"title": "to whom is patched"},
        "sendTo": {"recipients": [{"identifier": "patched", "name": "Ada"}]},
    });
    loop {
        pace.tick().await;
        request.send(&client, &send).await;
    }
}

async fn figures(system: &System, span: Duration) -> Figures {
    let (per_second, mut latencies) = tokio::join!(accepted(system, span), latencies(system, span));
    latencies.sort_unstable();
    Figures { per_second, median: latencies[latencies.len() / 2] }
}

fn body(recipient: &str) -> Value {
    json!({"notification": {"title": "hello"}, "sendTo": {"recipients": [{"identifier": recipient}]}})
}

/// Makes sends one at a time, and returns their number per second. Each must be accepted.
async fn accepted(system: &System, span: Duration) -> f64 {
    let (client, request, begin, mut accepted) = (Client::new(), system.request(), Instant::now(), 0_u32);
    while begin.elapsed() < span {
        let answer = request.send(&client, &body("many")).await;
        assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
        accepted += 1;
    }
    f64::from(accepted) / begin.elapsed().as_secs_f64()
}

async fn latencies(system: &System, span: Duration) -> Vec<Duration> {
    let (client, request, begin) = (Client::new(), system.request(), Instant::now());
    let (mut pace, mut latencies) = (pace(PACE), Vec::new());
    while begin.elapsed() < span {
        pace.tick().await;
        let answer = request.send(&client, &body("one")).await;
        let accepted = Instant::now();
        assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
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
        for (_, without, beside) in &self.0 {
            assert!(beside.per_second * FACTOR >= without.per_second, "{self}");
            assert!(beside.median <= without.median.mul_f64(FACTOR) + LOOK, "{self}");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (attack, without, beside) in &self.0 {
            writeln!(
                f,
                "{attack:?}: {:.0} sends per second during the attack, {:.0} without; \
                 median from 202 to inbox {:?} during the attack, {:?} without",
                beside.per_second, without.per_second, beside.median, without.median,
            )?;
        }
        Ok(())
    }
}
