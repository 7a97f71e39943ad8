//! A load generator: requests at a fixed rate, independent of the answers, over a fixed number of connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::{Value, json};
use suite::pace;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scale::Scale;

/// Interval between two groups of requests.
const PACE: Duration = Duration::from_millis(10);
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Number of users; each send goes to some of them.
pub(crate) const PEOPLE: usize = 500;
/// Number of recipients of an offered send.
const RECIPIENTS: usize = 5;
/// Number of recipients of a send that fills the streams, so that its jobs fill a message.
const RECIPIENTS_TO_FILL: usize = 16;
/// Number of the first offered send.
pub(crate) const OFFERED: usize = 1_000_000;
/// One in this number of sends has nearly the maximum size.
const LARGE_EVERY: usize = 40;
const LARGE: usize = 700 * 1024;
/// Number of connections that fill the streams. They are too few for the gateway to refuse a send for any reason other than full
/// streams.
const FILLING: usize = 8;
/// Number of requests that may wait for each connection, so that none is dropped if the service pauses for a short time.
const WAITING: usize = 16;

/// Ids of the accepted sends, by number.
pub(crate) type Accepted = BTreeMap<usize, String>;

/// Results of the requests of a load.
#[derive(Debug, Default)]
pub(crate) struct OfferedLoad {
    pub(crate) accepted: Accepted,
    /// Number of refused requests, by status.
    pub(crate) refused: BTreeMap<u16, usize>,
    /// Sends that were answered with 503. The log may have stored some of them.
    pub(crate) doubtful: BTreeSet<usize>,
    /// Number of requests that were dropped because too many waited for a connection.
    pub(crate) not_made: usize,
    /// Time from the start of the load to the last answer.
    pub(crate) took: Duration,
}

impl OfferedLoad {
    pub(crate) fn made(&self) -> usize {
        self.accepted.len() + self.refused.values().sum::<usize>()
    }

    async fn note(&mut self, send: usize, answer: Response) {
        match answer.status().as_u16() {
            202 => {
                let body: Value = answer.json().await.unwrap();
                self.accepted.insert(send, body["requestId"].as_str().unwrap().to_owned());
            }
            status @ (429 | 503) => {
                let after: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=60).contains(&after), "{status}: Retry-After: {after}");
                *self.refused.entry(status).or_default() += 1;
                if status == 503 {
                    self.doubtful.insert(send);
                }
            }
            other => panic!("{other}: {}", answer.text().await.unwrap()),
        }
    }

    async fn of_all(connections: JoinSet<OfferedLoad>) -> OfferedLoad {
        let mut all = OfferedLoad::default();
        for of_connection in connections.join_all().await {
            all.accepted.extend(of_connection.accepted);
            all.doubtful.extend(of_connection.doubtful);
            for (status, count) in of_connection.refused {
                *all.refused.entry(status).or_default() += count;
            }
        }
        all
    }
}

pub(crate) fn title(send: usize) -> String {
    format!("flood {send}")
}

pub(crate) fn recipients(send: usize) -> impl Iterator<Item = String> {
    let count = if send < OFFERED { RECIPIENTS_TO_FILL } else { RECIPIENTS };
    (0..count).map(move |index| person((send * count + index) % PEOPLE))
}

pub(crate) fn person(number: usize) -> String {
    format!("person-{number}")
}

/// Makes sends over every connection until the gateway refuses one on it, because the streams are full.
pub(crate) async fn fill(request: Request) -> OfferedLoad {
    let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
    let numbers = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..FILLING {
        let (client, request, numbers) = (client.clone(), request.clone(), Arc::clone(&numbers));
        connections.spawn(async move {
            let mut offered = OfferedLoad::default();
            while offered.refused.is_empty() {
                let send = numbers.fetch_add(1, Ordering::Relaxed);
                offered.note(send, request.send(&client, &body(send)).await).await;
            }
            offered
        });
    }
    OfferedLoad::of_all(connections).await
}

/// Offers the load of `scale`.
pub(crate) async fn offer(request: Request, scale: Scale) -> OfferedLoad {
    let (give, take) = mpsc::channel(scale.connections * WAITING);
    let take = Arc::new(Mutex::new(take));
    let client = Client::builder().timeout(ANSWERED_WITHIN).build().unwrap();
    let mut connections = JoinSet::new();
    for _ in 0..scale.connections {
        connections.spawn(send_all(client.clone(), request.clone(), Arc::clone(&take)));
    }
    let begin = Instant::now();
    let (mut pace, mut send, mut not_made) = (pace(PACE), 0, 0);
    while begin.elapsed() < scale.span {
        pace.tick().await;
        let due = begin.elapsed().as_secs_f64() * f64::from(scale.offered_per_second);
        while f64::from(u32::try_from(send).unwrap()) < due {
            not_made += usize::from(give.try_send(OFFERED + send).is_err());
            send += 1;
        }
    }
    drop(give);
    let offered = OfferedLoad::of_all(connections).await;
    OfferedLoad { not_made, took: begin.elapsed(), ..offered }
}

/// URL and credentials of a call.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl Request {
    pub(crate) async fn send(&self, client: &Client, body: &Value) -> Response {
        let request = client.post(&self.url).header("X-SERVICE-API-KEY", &self.key);
        request.header("X-SERVICE-API-SECRET", &self.secret).json(body).send().await.expect("an answer")
    }
}

async fn send_all(client: Client, request: Request, sends: Arc<Mutex<mpsc::Receiver<usize>>>) -> OfferedLoad {
    let mut offered = OfferedLoad::default();
    loop {
        let next = sends.lock().await.recv().await;
        let Some(send) = next else { return offered };
        offered.note(send, request.send(&client, &body(send)).await).await;
    }
}

/// Body of a send. A large one has data for every recipient.
pub(crate) fn body(send: usize) -> Value {
    let filler = if send.is_multiple_of(LARGE_EVERY) { LARGE / recipients(send).count() } else { 0 };
    let own = json!({"filler": "x".repeat(filler)});
    let recipient = |name: String| json!({"identifier": name, "data": own});
    json!({
        "notification": {"title": title(send), "message": "It is on its way."},
        "sendTo": {"recipients": recipients(send).map(recipient).collect::<Vec<_>>()},
    })
}
