//! Attacks on the memory of a gateway through every way in that needs no secret. The gateway must live within the memory that its
//! container gets, and go on with the sends of another app.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::Client;
use serde_json::json;
use suite::web_socket::{frame, header, upgrade};
use suite::{Name, Role, pace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::generator::Request;
use crate::system::System;

/// Memory of the gateway's container in the Helm chart, in MiB.
const MOST_MEMORY: u64 = 384;
/// Maximum factor by which the median time of a send may be longer during an attack.
const FACTOR: f64 = 2.0;
/// Differences below this time are noise.
const NOISE: Duration = Duration::from_millis(5);
/// Number of connections of an attack. They come from [`PEERS`] addresses, so that the share of one peer does not limit the attack.
const CONNECTIONS: usize = 300;
const PEERS: usize = 3;
/// Interval at which a closed connection is opened again, and at which an endless attack writes its next piece.
const PACE: Duration = Duration::from_millis(250);
/// Time limit for writing to a gateway that reads nothing.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);
const TEXT: u8 = 0x81;

/// A way into the gateway without a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Frames that declare 1 TiB.
    Frames,
    /// Messages of nearly the maximum size that never end.
    Messages,
    /// Events whose acknowledgements would be large, with the public key. The answers are not read.
    Acknowledgements,
    /// Upgrades that send one byte of a frame.
    Upgrades,
    /// Heads that never end.
    Heads,
    /// Large heads behind a request whose answer is not read.
    Pipelines,
    /// Bodies that nearly reach the limit and never end.
    Bodies,
    /// Bodies without a length and without an end.
    Chunks,
    /// Callbacks that never end.
    Callbacks,
    /// Event streams of a client that reads nothing and writes what it likes.
    Streams,
}

impl Way {
    const ALL: [Way; 10] = [
        Way::Frames,
        Way::Messages,
        Way::Acknowledgements,
        Way::Upgrades,
        Way::Heads,
        Way::Pipelines,
        Way::Bodies,
        Way::Chunks,
        Way::Callbacks,
        Way::Streams,
    ];

    /// Returns the bytes that each connection writes first, and those that it writes again and again.
    fn bytes(self, victim: &Request) -> (Vec<u8>, Vec<u8>) {
        let credentials = format!("X-SERVICE-API-KEY: {}\r\nX-SERVICE-USER-ID: mallory\r\n", victim.key);
        let piece = vec![b'a'; 64 * 1024];
        let with = |first: Vec<u8>, second: Vec<u8>| [first, second].concat();
        match self {
            Way::Frames => (with(upgrade(""), header(TEXT, 1 << 40)), piece),
            Way::Messages => {
                (with(upgrade(""), with(frame(0x01, &[b'a'; 90_000]), header(0, 9_000))), vec![b'a'; 10])
            }
            Way::Acknowledgements => {
                let query = format!("&apiKey={}&userId=mallory", victim.key);
                let event = frame(TEXT, format!("42{}", "9".repeat(99_000)).as_bytes());
                (with(upgrade(&query), frame(TEXT, b"40")), event)
            }
            Way::Upgrades => (with(upgrade(""), vec![TEXT]), Vec::new()),
            Way::Heads => {
                (with(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Filler: ".to_vec(), piece.repeat(2)), vec![])
            }
            Way::Pipelines => {
                let large =
                    [b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Filler: ", &piece[..], b"\r\n\r\n"].concat();
                (with(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2), large.repeat(16)), vec![])
            }
            Way::Bodies => {
                let head = format!(
                    "PUT /v3/profile HTTP/1.1\r\nHost: x\r\n{credentials}Content-Length: 131072\r\n\r\n"
                );
                (with(head.into_bytes(), vec![b' '; 131_071]), vec![])
            }
            Way::Chunks => {
                let head = format!(
                    "PUT /v3/profile HTTP/1.1\r\nHost: x\r\n{credentials}Transfer-Encoding: chunked\r\n\r\n"
                );
                (head.into_bytes(), with(b"10000\r\n".to_vec(), with(piece, b"\r\n".to_vec())))
            }
            Way::Callbacks => {
                let head = "POST /v3/callbacks/twilio/1/main/messages HTTP/1.1\r\nHost: x\r\n\
                            Content-Type: application/x-www-form-urlencoded\r\n\
                            X-Twilio-Signature: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\nContent-Length: 16384\r\n\r\n";
                (with(head.as_bytes().to_vec(), vec![b'a'; 16_383]), vec![])
            }
            Way::Streams => {
                let head = format!("GET /v3/stream HTTP/1.1\r\nHost: x\r\n{credentials}\r\n");
                (head.into_bytes(), piece)
            }
        }
    }

    fn begin(self, address: SocketAddr, victim: &Request) -> JoinSet<()> {
        let (first, more) = self.bytes(victim);
        let mut attack = JoinSet::new();
        for number in 0..CONNECTIONS {
            let peer = Ipv4Addr::new(127, 0, 67, (number % PEERS + 1) as u8);
            attack.spawn(attacker(peer, address, first.clone(), more.clone()));
        }
        attack
    }
}

/// Keeps one connection open that writes these bytes and reads nothing.
async fn attacker(peer: Ipv4Addr, address: SocketAddr, first: Vec<u8>, more: Vec<u8>) {
    let mut pace = pace(PACE);
    loop {
        pace.tick().await;
        // Errors only mean that the gateway has closed the connection.
        if let Ok(mut connection) = connect(peer, address).await {
            hold(&mut connection, &first, &more).await.ok();
        }
    }
}

async fn connect(peer: Ipv4Addr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4 * 1024)?;
    socket.bind((peer, 0).into())?;
    socket.connect(address).await
}

async fn hold(connection: &mut TcpStream, first: &[u8], more: &[u8]) -> std::io::Result<()> {
    let mut pace = pace(PACE);
    // A gateway that reads no further makes the write wait, which is what it should do.
    if timeout(WRITTEN_WITHIN, connection.write_all(first)).await.is_ok_and(|written| written.is_err()) {
        return Ok(());
    }
    loop {
        pace.tick().await;
        if more.is_empty() {
            // The connection is closed or has an answer; otherwise it stays open.
            connection.readable().await?;
            if connection.read(&mut [0; 64]).await? == 0 {
                return Ok(());
            }
        } else if let Ok(written) = timeout(WRITTEN_WITHIN, connection.write_all(more)).await {
            written?;
        }
    }
}

/// Median time of a send.
#[derive(Clone, Copy, Debug)]
struct Figures {
    way: Way,
    without: Duration,
    beside: Duration,
    /// Peak memory of the gateway so far, in MiB.
    memory: u64,
}

pub(crate) struct Report(Vec<Figures>);

/// Attacks a gateway for `span` through each way, and measures the sends of another app before, during and after it.
pub(crate) async fn run(span: Duration) -> Report {
    let mut system = System::start(&[Role::Gateway, Role::Dispatcher, Role::Inbox], &[]).await;
    let victim = system.another_app("victim");
    median(&system, span / 4).await;
    let mut report = Report(Vec::new());
    let mut before = median(&system, span / 2).await;
    for way in Way::ALL {
        let attack = way.begin(system.address(), &victim);
        let beside = median(&system, span).await;
        drop(attack);
        let after = median(&system, span / 2).await;
        let gateway = system.process_mut(Name { role: Role::Gateway, number: 1 });
        gateway.assert_running();
        let memory = gateway.most_memory() / 1024 / 1024;
        // The machine may become busy between two measurements.
        report.0.push(Figures { way, without: before.max(after), beside, memory });
        println!("{}", report.0.last().unwrap());
        before = after;
    }
    report.check();
    report
}

/// Makes sends one at a time, each of which must be accepted, and returns their median time.
async fn median(system: &System, span: Duration) -> Duration {
    let (client, request, begin, mut times) = (Client::new(), system.request(), Instant::now(), Vec::new());
    let send =
        json!({"notification": {"title": "hello"}, "sendTo": {"recipients": [{"identifier": "many"}]}});
    while begin.elapsed() < span || times.len() < 3 {
        let sent = Instant::now();
        let answer = request.send(&client, &send).await;
        assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
        times.push(sent.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

impl Report {
    fn check(&self) {
        for figures in &self.0 {
            assert!(figures.memory < MOST_MEMORY, "the gateway needs more memory than it gets:\n{self}");
            let most = figures.without.mul_f64(FACTOR) + NOISE;
            assert!(figures.beside <= most, "sends of another app take too long during an attack:\n{self}");
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { way, without, beside, memory } = self;
        write!(
            f,
            "{way:?}: median send {beside:?} during the attack, {without:?} without; gateway {memory} MiB"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|figures| writeln!(f, "{figures}"))
    }
}
