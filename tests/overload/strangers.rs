//! Strangers stall bodies by the hundred under one app's public key and send wrong secrets of another: how many sends that
//! one's backend gets accepted, and how long they take to the inbox, beside the same without them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::callers::pace;
use crate::generator::{body, person};
use crate::lanes::{PEOPLE, measure};
use crate::scale::Scale;
use crate::system::System;

/// Neither figure may be worse than this many times the one without the attack.
const WORSE_BY: f64 = 2.0;
const STALLED: usize = 160;
const BODY: usize = 128 * 1024;
const FLOODING: usize = 4;
/// Between two requests with a wrong secret of one connection.
const FLOOD_PACE: Duration = Duration::from_millis(40);
const SENDING: usize = 4;
/// A peer of its own.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 66, 1);

/// Sends per second, and the median from 202 to the inbox.
#[derive(Clone, Copy, Debug)]
struct Figures {
    per_second: f64,
    median: Duration,
}

/// What came of it.
pub(crate) struct Report {
    quiet: Figures,
    attacked: Figures,
}

/// Measures an app's sends without and with strangers.
pub(crate) async fn run(scale: &Scale) -> Report {
    let system = System::start(&["tidings-gateway", "tidings-dispatcher", "tidings-inbox"], &[]).await;
    system.create_people(&(0..PEOPLE).map(person).collect::<Vec<_>>()).await;
    let victim = system.create_open_app("victim");
    let scale = Scale { span: scale.span / 2, ..*scale };
    figures(&system, &scale).await;
    let quiet = figures(&system, &scale).await;
    let attack = attack(&system, &victim);
    let attacked = figures(&system, &scale).await;
    drop(attack);
    let report = Report { quiet, attacked };
    report.check();
    report
}

async fn figures(system: &System, scale: &Scale) -> Figures {
    let (latencies, _) = measure(system, scale).await;
    let mut senders = JoinSet::new();
    let begin = Instant::now();
    for sender in 0..SENDING {
        let (request, client, span) = (system.request(), Client::new(), scale.span);
        senders.spawn(async move {
            let mut accepted = 0_u32;
            while begin.elapsed() < span {
                let answer = request.send(&client, &body(40 * sender + 1)).await;
                assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
                accepted += 1;
            }
            accepted
        });
    }
    let accepted: u32 = senders.join_all().await.into_iter().sum();
    let per_second = f64::from(accepted) / begin.elapsed().as_secs_f64();
    Figures { per_second, median: latencies[latencies.len() / 2] }
}

/// Goes on until it is dropped.
fn attack(system: &System, victim: &str) -> JoinSet<()> {
    let request = system.request();
    let address = request.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let mut stalled = format!(
        "PUT /v3/profile HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-SERVICE-API-KEY: {victim}\r\n\
         X-SERVICE-USER-ID: mallory\r\nContent-Length: {BODY}\r\n\r\n",
    )
    .into_bytes();
    stalled.resize(stalled.len() + BODY - 1, b' ');
    let wrong = format!(
        "GET /v3/categories HTTP/1.1\r\nHost: x\r\nX-SERVICE-API-KEY: {}\r\nX-SERVICE-API-SECRET: wrong\r\n\
         Connection: close\r\n\r\n",
        request.key,
    )
    .into_bytes();
    let mut attack = JoinSet::new();
    let of_all = std::iter::repeat_n(stalled, STALLED).chain(std::iter::repeat_n(wrong, FLOODING));
    for bytes in of_all {
        attack.spawn(async move {
            let mut pace = pace(FLOOD_PACE);
            loop {
                pace.tick().await;
                drop(exchange(address, &bytes).await);
            }
        });
    }
    attack
}

/// Writes these bytes, and waits for the answer.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> std::io::Result<usize> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((STRANGER, 0).into())?;
    let mut connection = socket.connect(address).await?;
    connection.write_all(bytes).await?;
    connection.read(&mut [0; 64]).await
}

impl Report {
    fn check(&self) {
        let Report { quiet, attacked } = self;
        assert!(attacked.per_second * WORSE_BY >= quiet.per_second, "{self}");
        assert!(attacked.median <= quiet.median.mul_f64(WORSE_BY), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { quiet, attacked } = self;
        write!(
            f,
            "strangers: {:.0} sends a second beside them, {:.0} without; 202 to inbox median {:?} beside them, {:?} without",
            attacked.per_second, quiet.per_second, attacked.median, quiet.median,
        )
    }
}
