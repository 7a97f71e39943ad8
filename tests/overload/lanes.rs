//! Latency of single transactional sends, from their 202 to the inbox, while large sends keep the bulk lane busy.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::send::CHUNK_RECIPIENTS;
use domain::{Lane, StreamName};
use event_log::EventLog;
use reqwest::Client;
use serde_json::{Value, json};
use suite::{Role, pace};
use testkit::eventually;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::generator::{Request, person};
use crate::scale::Scale;
use crate::system::System;

const SOON: Duration = Duration::from_secs(120);
/// Memory limit of every process, in MiB.
const MOST_MEMORY: u64 = 256;
/// Number of large sends that wait in the lane: many more than are planned at once.
const WAITING: u64 = 100;
const PEOPLE: usize = 5_000;
const BULK_CONNECTIONS: usize = 2;
/// Poll interval of inboxes; also the precision of a measurement.
const LOOK: Duration = Duration::from_millis(2);
/// Interval at which the waiting bulk sends are counted.
const LOOK_AT_LANE: Duration = Duration::from_millis(50);
/// Time for which the bulk lane is busy before the measurement starts.
const WARM_UP: Duration = Duration::from_secs(3);
/// Maximum factor by which the bulk lane may be slower during the measurement.
const BULK_SLOWER_BY: f64 = 4.0;

pub(crate) struct Report {
    /// Latencies of all transactional sends, shortest first.
    latencies: Vec<Duration>,
    /// Number of recipients of all bulk sends.
    bulk_recipients: usize,
    /// Inbox items of bulk sends per second before the measurement, without transactional sends.
    bulk_alone: f64,
    /// Inbox items of bulk sends per second during the measurement.
    bulk_beside: f64,
    /// Smallest number of large sends that were waiting in the bulk lane at any time.
    fewest_waiting: u64,
    memory: BTreeMap<&'static str, u64>,
}

/// Saturates the bulk lane, and measures the transactional lane.
pub(crate) async fn run(scale: &Scale) -> Report {
    let mut system = System::start(&[Role::Gateway, Role::Dispatcher, Role::Inbox], &[]).await;
    system.create_people(&(0..PEOPLE).map(person).collect::<Vec<_>>()).await;
    let lane = BulkLane { log: system.log.clone() };
    let (end, mut feeders) = (CancellationToken::new(), JoinSet::new());
    for number in 0..BULK_CONNECTIONS {
        feeders.spawn(feed(system.request(), lane.clone(), *scale, number, end.clone()));
    }
    eventually(SOON, "the bulk lane is busy", async || (lane.waiting().await >= WAITING / 2).then_some(()))
        .await;
    let (alone, fewest_alone) = items_during(&system, watch(&lane, scale.span / 2)).await;
    let both = async { tokio::join!(measure(&system, scale), watch(&lane, scale.span + WARM_UP)) };
    let (beside, ((latencies, transactional), fewest_beside)) = items_during(&system, both).await;
    end.cancel();
    let bulk_recipients: usize = feeders.join_all().await.into_iter().sum();
    let all = i64::try_from(bulk_recipients + transactional).unwrap();
    eventually(SOON * 5, "every send has arrived", async || (system.count(ITEMS).await == all).then_some(()))
        .await;
    let memory = system.most_memory();
    let fewest_waiting = fewest_alone.min(fewest_beside);
    let bulk_beside = beside - f64::from(scale.transactional_per_second);
    let report =
        Report { latencies, bulk_recipients, bulk_alone: alone, bulk_beside, fewest_waiting, memory };
    report.check();
    report
}

const ITEMS: &str = "SELECT count(*) FROM inbox_item";

/// Items per second in all inboxes during `work`.
async fn items_during<T>(system: &System, work: impl Future<Output = T>) -> (f64, T) {
    let (begin, before) = (Instant::now(), system.count(ITEMS).await);
    let outcome = work.await;
    let items = u32::try_from(system.count(ITEMS).await - before).unwrap();
    (f64::from(items) / begin.elapsed().as_secs_f64(), outcome)
}

impl Report {
    fn check(&self) {
        assert!(self.fewest_waiting > 0, "the bulk lane was not saturated: {self}");
        assert!(self.bulk_alone > 0.0, "the bulk lane makes no progress: {self}");
        let floor = self.bulk_alone / BULK_SLOWER_BY;
        assert!(self.bulk_beside >= floor, "the bulk lane is too slow during the measurement: {self}");
        assert!(self.memory.values().all(|most| *most <= MOST_MEMORY), "{self}");
    }

    pub(crate) fn p99(&self) -> Duration {
        self.quantile(99)
    }

    fn quantile(&self, percent: usize) -> Duration {
        self.latencies[(self.latencies.len() - 1) * percent / 100]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { latencies, bulk_recipients, bulk_alone, bulk_beside, fewest_waiting, memory } = self;
        writeln!(
            f,
            "lanes: {} transactional sends; from 202 to inbox p50 {:?}, p99 {:?}, maximum {:?}",
            latencies.len(),
            self.quantile(50),
            self.p99(),
            self.quantile(100),
        )?;
        writeln!(
            f,
            "bulk sends to {bulk_recipients} recipients: {bulk_beside:.0} items per second ({bulk_alone:.0} before the measurement); \
             at least {fewest_waiting} sends waited at any time"
        )?;
        write!(f, "peak memory in MiB, limit {MOST_MEMORY}: {memory:?}")
    }
}

/// Reader of the bulk lane's progress.
#[derive(Clone)]
struct BulkLane {
    log: EventLog,
}

impl BulkLane {
    /// Number of large sends that are not finished.
    async fn waiting(&self) -> u64 {
        let progress = self.log.consumer_progress(StreamName::Send(Lane::Bulk), "dispatcher").await.unwrap();
        progress.map_or(0, |progress| progress.pending + progress.ack_pending)
    }
}

/// Makes bulk sends until `end`, and keeps [`WAITING`] of them waiting. Returns the total number of recipients.
async fn feed(
    request: Request,
    lane: BulkLane,
    scale: Scale,
    number: usize,
    end: CancellationToken,
) -> usize {
    let (client, mut pace, mut sends, mut all) = (Client::new(), pace(LOOK_AT_LANE), 0, 0);
    while !end.is_cancelled() {
        pace.tick().await;
        let missing = WAITING.saturating_sub(lane.waiting().await);
        for _ in 0..missing {
            let (first, recipients) = (number * PEOPLE / BULK_CONNECTIONS + all, recipients(sends, &scale));
            let people: Vec<_> = (first..first + recipients).map(|number| person(number % PEOPLE)).collect();
            let body = json!({
                "notification": {"title": "To all", "message": "It is on its way."},
                "sendTo": {"recipients": people}, "override": {"channels": ["inApp"]}, "lane": "bulk",
            });
            assert_eq!(request.send(&client, &body).await.status(), 202);
            (sends, all) = (sends + 1, all + recipients);
        }
    }
    all
}

/// Number of recipients of a bulk send. Small sends, and sends whose last chunk is small, are mixed with large ones.
fn recipients(send: usize, scale: &Scale) -> usize {
    match send % 4 {
        1 => CHUNK_RECIPIENTS + 1,
        2 => 1,
        _ => scale.bulk_recipients,
    }
}

/// Counts the waiting bulk sends at intervals during `span`, and returns the smallest count.
async fn watch(lane: &BulkLane, span: Duration) -> u64 {
    let (begin, mut pace, mut fewest) = (Instant::now(), pace(LOOK_AT_LANE), u64::MAX);
    while begin.elapsed() < span {
        pace.tick().await;
        fewest = fewest.min(lane.waiting().await);
    }
    fewest
}

/// Makes sends at the rate of the scale, and measures the time until each is in the inbox. Returns these times, and the number of
/// all sends, including those before the measurement.
async fn measure(system: &System, scale: &Scale) -> (Vec<Duration>, usize) {
    let (reported, mut accepted) = mpsc::unbounded_channel();
    let sending = tokio::spawn(send_all(system.request(), *scale, reported));
    let app = system.count("SELECT id FROM app WHERE name = 'shop'").await;
    let (mut waiting, mut latencies, mut all, mut look) = (HashMap::new(), Vec::new(), 0, pace(LOOK));
    loop {
        look.tick().await;
        while let Ok((send, at, is_measured)) = accepted.try_recv() {
            waiting.insert(send, (at, is_measured));
            all += 1;
        }
        if waiting.is_empty() {
            if sending.is_finished() && accepted.is_empty() {
                break;
            }
            continue;
        }
        let sends: Vec<Uuid> = waiting.keys().copied().collect();
        let arrived: Vec<Uuid> =
            sqlx::query_scalar("SELECT send_id FROM inbox_item WHERE app_id = $2 AND send_id = ANY($1)")
                .bind(&sends)
                .bind(app)
                .fetch_all(&system.database)
                .await
                .unwrap();
        for send in arrived {
            let (at, is_measured) = waiting.remove(&send).unwrap();
            if is_measured {
                latencies.push(at.elapsed());
            }
        }
    }
    sending.await.unwrap();
    latencies.sort_unstable();
    (latencies, all)
}

/// Makes sends at the rate of the scale. Reports the id of each send, the time of its 202, and true if the send is measured.
/// Sends during the warm-up are not measured.
async fn send_all(request: Request, scale: Scale, reported: mpsc::UnboundedSender<(Uuid, Instant, bool)>) {
    let client = Client::new();
    let reported = Arc::new(reported);
    let (begin, mut calls) = (Instant::now(), JoinSet::new());
    let mut pace = pace(Duration::from_secs(1) / scale.transactional_per_second);
    for number in 0.. {
        if begin.elapsed() >= scale.span + WARM_UP {
            break;
        }
        pace.tick().await;
        let (request, client, reported) = (request.clone(), client.clone(), Arc::clone(&reported));
        let is_measured = begin.elapsed() >= WARM_UP;
        calls.spawn(async move {
            let body = json!({
                "notification": {"title": "To you", "message": "It is here."},
                "sendTo": {"recipients": [person(number * 7 % PEOPLE)]}, "override": {"channels": ["inApp"]},
            });
            let answer = request.send(&client, &body).await;
            assert_eq!(answer.status(), 202);
            let at = Instant::now();
            let body: Value = answer.json().await.unwrap();
            let send: Uuid = body["requestId"].as_str().unwrap().parse().unwrap();
            reported.send((send, at, is_measured)).unwrap();
        });
    }
    calls.join_all().await;
}
