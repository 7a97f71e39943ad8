//! Connections that send requests for a given time. Each sends its next request when it has the answer to the last one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

pub(crate) const CONNECTIONS: usize = 64;
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Number of digits in an Idempotency-Key's counter, which makes the key unique.
const KEY_DIGITS: usize = 20;

/// A request that is sent repeatedly.
#[derive(Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Position of the Idempotency-Key's counter, which increases with each repetition. None if the request has no key.
    key_at: Option<usize>,
}

impl Request {
    /// Builds a POST of JSON. With `with_key`, each repetition has a different key.
    pub(crate) fn post(path: &str, headers: &[(&str, &str)], with_key: bool, body: &str) -> Request {
        let mut head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut key_at = None;
        if with_key {
            head += "Idempotency-Key: ";
            key_at = Some(head.len());
            head += &format!("{:0KEY_DIGITS$}\r\n", 0);
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        Request { bytes: head.into_bytes(), key_at }
    }

    fn set_key(&mut self, number: u64) {
        if let Some(start) = self.key_at {
            let digits = format!("{number:0KEY_DIGITS$}");
            self.bytes[start..start + KEY_DIGITS].copy_from_slice(digits.as_bytes());
        }
    }
}

/// Duration and latencies of a run.
pub(crate) struct DriveReport {
    pub(crate) elapsed: Duration,
    /// Latencies of all answers, shortest first.
    pub(crate) latencies: Vec<Duration>,
}

impl DriveReport {
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that `share` of the answers did not exceed.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let last = self.latencies.len() - 1;
        self.latencies[(last as f64 * share) as usize]
    }
}

/// Sends the request repeatedly on every connection, for the time `span`. `first_key` and the following keys must be unused.
///
/// # Panics
/// An answer is not a 202.
pub(crate) async fn drive(
    address: SocketAddr,
    request: &Request,
    span: Duration,
    first_key: u64,
) -> DriveReport {
    let start = Arc::new(Barrier::new(CONNECTIONS + 1));
    let mut running = tokio::task::JoinSet::new();
    for index in 0..CONNECTIONS {
        let (request, start) = (request.clone(), Arc::clone(&start));
        running.spawn(async move {
            let mut connection = Connection::open(address).await;
            start.wait().await;
            connection.repeat(request, span, first_key + index as u64).await
        });
    }
    start.wait().await;
    let begin = Instant::now();
    let mut latencies = running.join_all().await.concat();
    let elapsed = begin.elapsed();
    latencies.sort_unstable();
    DriveReport { elapsed, latencies }
}

/// Sends `count` requests at a constant rate over [`CONNECTIONS`] connections, or as fast as they are answered if the rate is
/// infinite. Calls `answered` with the index of each request when its answer has arrived.
///
/// # Panics
/// An answer is not a 202.
pub(crate) async fn send_at_rate(
    address: SocketAddr,
    count: usize,
    per_second: f64,
    request: impl Fn(usize) -> Request + Send + Sync + 'static,
    answered: impl Fn(usize) + Send + Sync + 'static,
) {
    let (request, answered) = (Arc::new(request), Arc::new(answered));
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address).await);
    }
    let begin = tokio::time::Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for (first, mut connection) in connections.into_iter().enumerate() {
        let (request, answered) = (Arc::clone(&request), Arc::clone(&answered));
        running.spawn(async move {
            for index in (first..count).step_by(CONNECTIONS) {
                let due = begin + Duration::from_secs_f64(index as f64 / per_second);
                tokio::time::sleep_until(due).await;
                let request = request(index);
                let exchange = connection.exchange(&request.bytes);
                tokio::time::timeout(ANSWERED_WITHIN, exchange).await.expect("an answer in time");
                answered(index);
            }
        });
    }
    running.join_all().await;
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, answer: Vec::with_capacity(4096) }
    }

    async fn repeat(&mut self, mut request: Request, span: Duration, mut key: u64) -> Vec<Duration> {
        let mut latencies = Vec::with_capacity(1024);
        let begin = Instant::now();
        while begin.elapsed() < span {
            request.set_key(key);
            key += CONNECTIONS as u64;
            let sent = Instant::now();
            let exchange = self.exchange(&request.bytes);
            tokio::time::timeout(ANSWERED_WITHIN, exchange).await.expect("an answer in time");
            latencies.push(sent.elapsed());
        }
        latencies
    }

    async fn exchange(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await.unwrap();
            assert!(read > 0, "the server closed a connection");
            if let Some(length) = whole_length(&self.answer) {
                assert!(self.answer.len() <= length, "the server answered without a request");
                if self.answer.len() == length {
                    break;
                }
            }
        }
        assert!(self.answer.starts_with(b"HTTP/1.1 202 "), "{}", String::from_utf8_lossy(&self.answer));
    }
}

/// Length of head and body together; None while the head is incomplete.
fn whole_length(answer: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"content-length: ";
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let start = answer[..head].windows(LENGTH.len()).position(|window| window.eq_ignore_ascii_case(LENGTH));
    let digits = &answer[start.expect("every answer has a Content-Length") + LENGTH.len()..head];
    let digits = digits.split(|byte| *byte == b'\r').next().unwrap();
    Some(head + std::str::from_utf8(digits).unwrap().parse::<usize>().unwrap())
}
