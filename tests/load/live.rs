//! Live connections of one gateway: memory of an idle connection, compared with the bare server, and the time from publishing a
//! change to its arrival at the client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::content::{InAppContent, Object};
use domain::id::partition;
use domain::{Envelope, StreamName, UserNumber};
use event_log::Message;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use suite::cpu::Processes;
use testkit::{Service, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};

use crate::accept::{await_listening, free_address};
use crate::arrivals::{Arrivals, quantile};
use crate::bare_server;
use crate::installation::{Installation, PARTITIONS};
use crate::role::Role;
use crate::series::Series;

const SOON: Duration = Duration::from_secs(60);
/// Changes per second in the measurement of latencies, and its duration.
const RATE: u32 = 1_000;
const SPAN: Duration = Duration::from_secs(10);
/// Connections that are opened at the same time.
const OPENING: usize = 64;
/// Time between the openings of two connections. An app may open 250 per second with a public key.
const OPEN_EVERY: Duration = Duration::from_millis(5);
/// Calls in each measurement of the API.
const CALLS: usize = 1_000;
/// Distance between the users of consecutive changes.
const STRIDE: usize = 7_919;
/// Users of one event in the push to all.
const RECIPIENTS: usize = 500;

/// Results by round.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LiveReport {
    pub(crate) connections: usize,
    pub(crate) kib_per_connection: Series,
    pub(crate) bare_kib_per_connection: Series,
    pub(crate) socket_io_kib_per_connection: Series,
    /// Milliseconds from the commit of a change to its arrival.
    pub(crate) p50_millis: Series,
    pub(crate) p99_millis: Series,
    /// Milliseconds from publishing a change to its arrival.
    pub(crate) published_p99_millis: Series,
    /// Milliseconds from the first event of a push to all users to the last arrival.
    pub(crate) push_all_millis: Series,
    /// Processor time of the gateway for one change, in microseconds.
    pub(crate) gateway_micros: Series,
    /// The 99th percentile of an API call without connections, and with all connections under load.
    pub(crate) api_p99_millis: Series,
    pub(crate) api_loaded_p99_millis: Series,
}

pub(crate) async fn measure(installation: &Installation, rounds: u32, connections: usize) -> LiveReport {
    let users = create_users(installation, connections).await;
    let inbox = installation.serve(Role::Inbox, &[]);
    let mut report = LiveReport { connections, ..LiveReport::default() };
    for round in 1..=rounds {
        eprintln!("live: round {round} of {rounds}");
        installation.settle().await;
        let address = free_address();
        let bare = Role::BareStream.start(&[(bare_server::LISTEN, &address.to_string())]);
        await_listening(address).await;
        let before = resident(&bare, "VmRSS:");
        let opened = open_all(installation, address, connections, &Arc::new(Arrivals::new(0))).await;
        report.bare_kib_per_connection.push((resident(&bare, "VmRSS:") - before) / connections as f64);
        drop((opened, bare));
        report.socket_io_kib_per_connection.push(socket_io_memory(installation, connections).await);
        measure_gateway(installation, &users, &mut report).await;
    }
    drop(inbox);
    report
}

/// Starts a gateway that admits all connections.
async fn serve_gateway(installation: &Installation) -> (Service, SocketAddr) {
    let address = free_address();
    let gateway = installation.serve(
        Role::Gateway,
        &[
            ("TIDINGS_GATEWAY__LISTEN", &address.to_string()),
            ("TIDINGS_GATEWAY__REALTIME_CONNECTIONS", "1000000"),
            ("TIDINGS_GATEWAY__CONNECTIONS", "1000000"),
            // Each connection names another client, as behind a load balancer.
            ("TIDINGS_GATEWAY__TRUSTED_PROXIES", "127.0.0.0/8"),
        ],
    );
    await_listening(address).await;
    (gateway, address)
}

/// Returns the memory of an idle Socket.IO connection in KiB.
async fn socket_io_memory(installation: &Installation, connections: usize) -> f64 {
    let (gateway, address) = serve_gateway(installation).await;
    let before = resident(&gateway, "VmRSS:");
    let arrivals = Arc::new(Arrivals::new(0));
    let opened = open(installation, address, connections, &arrivals, Protocol::SocketIo).await;
    let each = (resident(&gateway, "VmRSS:") - before) / connections as f64;
    drop(opened);
    each
}

async fn measure_gateway(installation: &Installation, users: &[UserNumber], report: &mut LiveReport) {
    let connections = users.len();
    let (gateway, address) = serve_gateway(installation).await;
    report.api_p99_millis.push(api_p99(installation, address).await);
    let before = resident(&gateway, "VmRSS:");
    let changes = RATE as usize * usize::try_from(SPAN.as_secs()).unwrap();
    let arrivals = Arc::new(Arrivals::new(changes + connections));
    let opened = open_all(installation, address, connections, &arrivals).await;
    report.kib_per_connection.push((resident(&gateway, "VmRSS:") - before) / connections as f64);

    let used = Processes::below(gateway.id()).micros();
    let announced = installation.log.positions().await.unwrap();
    let loaded = async {
        let calls = api_p99(installation, address);
        let (p99, ()) = tokio::join!(calls, publish_at_rate(installation, users, &arrivals, changes));
        arrivals.all(changes).await;
        p99
    };
    let p99 = tokio::select! {
        p99 = loaded => p99,
        () = arrivals.follow_commits(announced) => panic!("the announcements ended"),
    };
    let used = Processes::below(gateway.id()).micros() - used;
    report.gateway_micros.push(used as f64 / changes as f64);
    report.api_loaded_p99_millis.push(p99);
    let latencies = arrivals.since_commit(changes, |change| {
        partition(installation.app, users[(change * STRIDE) % users.len()], PARTITIONS)
    });
    report.p50_millis.push(quantile(&latencies, 0.5));
    report.p99_millis.push(quantile(&latencies, 0.99));
    report.published_p99_millis.push(quantile(&arrivals.since_publication(0..changes), 0.99));

    let begin = Instant::now();
    push_all(installation, users, &arrivals, changes).await;
    arrivals.all(changes + connections).await;
    report.push_all_millis.push(begin.elapsed().as_secs_f64() * 1e3);
    drop(opened);
}

async fn create_users(installation: &Installation, count: usize) -> Vec<UserNumber> {
    let names: Vec<String> = (0..count).map(name).collect();
    let mut users = Vec::with_capacity(count);
    for some in names.chunks(16) {
        let directory = installation.store.directory();
        let merges = some.iter().map(|name| directory.merge_user(installation.app, name, Object::new()));
        users.extend(
            futures_util::future::join_all(merges).await.into_iter().map(|merged| merged.unwrap().number),
        );
    }
    users
}

pub(crate) fn name(index: usize) -> String {
    format!("customer-{index}")
}

/// Opens a stream for each user, and notes the changes that arrive until the result is dropped.
pub(crate) async fn open_all(
    installation: &Installation,
    address: SocketAddr,
    connections: usize,
    arrivals: &Arc<Arrivals>,
) -> JoinSet<()> {
    open(installation, address, connections, arrivals, Protocol::EventStream).await
}

#[derive(Clone, Copy)]
enum Protocol {
    EventStream,
    SocketIo,
}

impl Protocol {
    fn request(self, installation: &Installation, index: usize) -> String {
        let (key, name) = (&installation.api_key, name(index));
        let target = match self {
            Protocol::EventStream => {
                format!("/v3/stream HTTP/1.1\r\nX-SERVICE-API-KEY: {key}\r\nX-SERVICE-USER-ID: {name}\r\n")
            }
            Protocol::SocketIo => format!(
                "/socket.io/?EIO=4&transport=websocket&apiKey={key}&userId={name} HTTP/1.1\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGlkaW5ncyBiZW5jaG1hcg==\r\n"
            ),
        };
        let (high, middle, low) = (index >> 16, (index >> 8) & 255, index & 255);
        format!("GET {target}Host: localhost\r\nX-Forwarded-For: 10.{high}.{middle}.{low}\r\n\r\n")
    }

    /// Waits until the connection is established.
    async fn establish(self, stream: &mut TcpStream, text: &mut Vec<u8>) {
        match self {
            Protocol::EventStream => read_until(b"event: ready", stream, text).await,
            Protocol::SocketIo => {
                read_until(b"pingInterval", stream, text).await;
                // The packet CONNECT, `40`, in a text frame with the mask 0 (RFC 6455, section 5.2).
                stream.write_all(b"\x81\x82\0\0\0\x0040").await.unwrap();
                read_until(b"NOTIFICATION_SEEN", stream, text).await;
            }
        }
    }
}

async fn open(
    installation: &Installation,
    address: SocketAddr,
    connections: usize,
    arrivals: &Arc<Arrivals>,
    protocol: Protocol,
) -> JoinSet<()> {
    let opening = Arc::new(Semaphore::new(OPENING));
    let opened = Arc::new(AtomicUsize::new(0));
    let mut reading = JoinSet::new();
    let mut pace = interval(OPEN_EVERY);
    for index in 0..connections {
        pace.tick().await;
        let request = protocol.request(installation, index);
        let (opening, opened, arrivals) = (Arc::clone(&opening), Arc::clone(&opened), Arc::clone(arrivals));
        reading.spawn(async move {
            let turn = opening.acquire().await.unwrap();
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = Vec::new();
            timeout(SOON, protocol.establish(&mut stream, &mut text)).await.expect("it opens in time");
            drop(turn);
            opened.fetch_add(1, Ordering::AcqRel);
            loop {
                note_titles(&mut text, &arrivals);
                if stream.read_buf(&mut text).await.unwrap_or(0) == 0 {
                    return;
                }
            }
        });
    }
    eventually(SOON * 2, "all streams are open", async || {
        (opened.load(Ordering::Acquire) == connections).then_some(())
    })
    .await;
    reading
}

async fn read_until(what: &[u8], stream: &mut TcpStream, text: &mut Vec<u8>) {
    while !text.windows(what.len()).any(|window| window == what) {
        let read = stream.read_buf(text).await.unwrap();
        assert!(read > 0, "refused: {}", String::from_utf8_lossy(text));
    }
}

/// Notes the notifications in the text, and removes them from it.
fn note_titles(text: &mut Vec<u8>, arrivals: &Arrivals) {
    const TITLE: &[u8] = b"\"title\":\"";
    let mut done = 0;
    while let Some(found) = text[done..].windows(TITLE.len()).position(|window| window == TITLE) {
        let start = done + found + TITLE.len();
        let Some(length) = text[start..].iter().position(|byte| *byte == b'"') else { break };
        arrivals.note(std::str::from_utf8(&text[start..start + length]).unwrap().parse().unwrap());
        done = start + length;
    }
    if done > 0 {
        text.drain(..done);
    }
}

fn event(
    installation: &Installation,
    title: usize,
    recipients: Vec<(UserNumber, u32)>,
    contents: usize,
) -> Envelope {
    let content = |index: usize| InAppContent {
        title: Some((title + index).to_string()),
        message: Some("Order 4711 left our house this morning and arrives tomorrow before noon.".to_owned()),
        ..InAppContent::default()
    };
    suite::items_added(installation.app, (0..contents).map(content).collect(), recipients)
}

async fn publish(installation: &Installation, partition: u32, event: Envelope) -> u64 {
    let payload = event.encode().unwrap().into();
    let message = Message { stream: StreamName::Inbox(partition), id: None, payload };
    installation.log.publish(message).await.unwrap().seq
}

/// Publishes changes of one user each, at a constant rate.
async fn publish_at_rate(
    installation: &Installation,
    users: &[UserNumber],
    arrivals: &Arrivals,
    changes: usize,
) {
    let mut tick = interval(Duration::from_secs(1) / RATE);
    let mut publishing = FuturesUnordered::new();
    for change in 0..changes {
        tick.tick().await;
        let user = users[(change * STRIDE) % users.len()];
        arrivals.published[change].store(arrivals.now(), Ordering::Release);
        let number = partition(installation.app, user, PARTITIONS);
        let event = event(installation, change, vec![(user, 0)], 1);
        publishing.push(async move {
            let seq = publish(installation, number, event).await;
            arrivals.sequences[change].store(seq, Ordering::Release);
        });
        while publishing.len() > RATE as usize / 10 {
            publishing.next().await;
        }
    }
    while publishing.next().await.is_some() {}
}

/// Publishes one change for each user.
async fn push_all(installation: &Installation, users: &[UserNumber], arrivals: &Arrivals, first: usize) {
    let mut homes: HashMap<u32, Vec<UserNumber>> = HashMap::new();
    for &user in users {
        homes.entry(partition(installation.app, user, PARTITIONS)).or_default().push(user);
    }
    let mut change = first;
    let mut publishing = FuturesUnordered::new();
    for (number, users) in homes {
        for some in users.chunks(RECIPIENTS) {
            let recipients = (0..).zip(some).map(|(content, user)| (*user, content)).collect();
            for published in &arrivals.published[change..change + some.len()] {
                published.store(arrivals.now(), Ordering::Release);
            }
            publishing.push(publish(
                installation,
                number,
                event(installation, change, recipients, some.len()),
            ));
            change += some.len();
        }
    }
    while publishing.next().await.is_some() {}
}

/// Makes calls one after the other, and returns the 99th percentile of their duration in milliseconds.
async fn api_p99(installation: &Installation, address: SocketAddr) -> f64 {
    let client = reqwest::Client::new();
    let mut durations = Vec::with_capacity(CALLS);
    for index in 0..CALLS {
        let begin = Instant::now();
        let call = client
            .get(format!("http://{address}/v3/notifications/counts"))
            .header("X-SERVICE-API-KEY", &installation.api_key)
            .header("X-SERVICE-API-SECRET", &installation.api_secret)
            .header("X-SERVICE-USER-ID", name(index % 100));
        assert_eq!(call.send().await.unwrap().status(), 200);
        durations.push(begin.elapsed());
    }
    durations.sort_unstable();
    durations[CALLS * 99 / 100].as_secs_f64() * 1e3
}

/// Returns a value of the status of a process in KiB: `VmRSS:` for its resident memory, `VmHWM:` for the maximum of it.
pub(crate) fn resident(service: &Service, what: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
