//! Offers jobs through the API: sends to several recipients, each an email.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Timestamp;
use reqwest::Client;
use serde_json::{Value, json};
use service_kit::clock;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

use super::backlog::Backlog;
use super::options::Options;
use super::phase::Load;
use super::site::{Site, user};

/// Time during which due jobs are collected into sends, as in the original.
const COLLECTED: Duration = Duration::from_millis(25);
/// Most sends without an answer.
const AT_ONCE: usize = 32;
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// A send that was answered with 202.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) send: Uuid,
    pub(crate) at: Timestamp,
    pub(crate) jobs: u64,
}

/// Numbers of jobs of one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offers {
    pub(crate) offered: u64,
    /// Jobs that became due and were not offered, because too many sends had no answer. None for a backlog of constant depth.
    pub(crate) not_offered: Option<u64>,
    /// Jobs of sends that got another answer than 202, or none.
    pub(crate) refused: u64,
}

#[derive(Clone)]
pub(crate) struct Producer(Arc<Shared>);

struct Shared {
    client: Client,
    url: String,
    key: String,
    secret: String,
    batch: u64,
    backlog: Mutex<Backlog>,
    next_user: AtomicUsize,
    places: Arc<Semaphore>,
    /// Jobs of sends without an answer.
    outgoing: AtomicU64,
    /// Jobs of sends that got another answer than 202, or none.
    refused: AtomicU64,
    sends: Mutex<Vec<Accepted>>,
    /// Number of sends, oldest first, whose jobs have all ended.
    ended: AtomicUsize,
}

impl Producer {
    pub(crate) fn new(site: &Site, options: &Options) -> Producer {
        Producer(Arc::new(Shared {
            client: Client::builder().timeout(ANSWERED_WITHIN).build().unwrap(),
            url: format!("http://{}/v3/notifications", site.gateway),
            key: site.installation.api_key.clone(),
            secret: site.installation.api_secret.clone(),
            batch: options.batch,
            backlog: Mutex::new(Backlog::open(&site.accepted)),
            next_user: AtomicUsize::new(0),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            outgoing: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            sends: Mutex::default(),
            ended: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Acquire)
    }

    pub(crate) fn sends(&self) -> Vec<Accepted> {
        self.0.sends.lock().unwrap().clone()
    }

    /// Accepted sends, except those of [`set_ended`](Self::set_ended).
    pub(crate) fn unended(&self) -> Vec<Accepted> {
        self.0.sends.lock().unwrap()[self.0.ended.load(Ordering::Acquire)..].to_vec()
    }

    /// Notes that all jobs of the first `count` sends of [`unended`](Self::unended) have ended.
    pub(crate) fn set_ended(&self, count: usize) {
        self.0.ended.fetch_add(count, Ordering::AcqRel);
    }

    /// Jobs that were accepted and not yet answered by the provider.
    pub(crate) fn depth(&self) -> u64 {
        self.0.backlog.lock().unwrap().depth()
    }

    /// Offers the jobs that are due from `begin` to `until`, with `bulk_share` of the sends in the bulk lane. Waits for all answers.
    pub(crate) async fn produce(
        &self,
        load: Load,
        bulk_share: f64,
        begin: Instant,
        until: Instant,
    ) -> Offers {
        let (refused_before, mut offered, mut made, mut bulk) = (self.refused(), 0, 0_u64, 0_u64);
        let (mut running, mut ticks) = (JoinSet::new(), interval(COLLECTED));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let left = loop {
            ticks.tick().await;
            let now = Instant::now();
            let mut due = match load {
                Load::Rate(rate) => ((now.min(until) - begin).as_secs_f64() * rate) as u64 - offered,
                Load::Depth(depth) => {
                    depth.saturating_sub(self.depth() + self.0.outgoing.load(Ordering::Acquire))
                }
            };
            while due > 0 {
                // If all places are taken, the jobs stay due.
                let Ok(place) = self.0.places.clone().try_acquire_owned() else { break };
                let jobs = due.min(self.0.batch);
                (due, offered, made) = (due - jobs, offered + jobs, made + 1);
                let in_bulk = (bulk as f64) < made as f64 * bulk_share;
                bulk += u64::from(in_bulk);
                self.0.outgoing.fetch_add(jobs, Ordering::AcqRel);
                let shared = self.0.clone();
                running.spawn(async move {
                    shared.send(jobs, in_bulk).await;
                    drop(place);
                });
            }
            while running.try_join_next().is_some() {}
            if now >= until {
                break due;
            }
        };
        running.join_all().await;
        let not_offered = matches!(load, Load::Rate(_)).then_some(left);
        Offers { offered, not_offered, refused: self.refused() - refused_before }
    }
}

impl Shared {
    async fn send(&self, jobs: u64, in_bulk: bool) {
        let count = usize::try_from(jobs).unwrap();
        let first = self.next_user.fetch_add(count, Ordering::Relaxed);
        let recipients: Vec<String> = (first..first + count).map(user).collect();
        let body = json!({
            "notification": {"title": "Your order is on its way", "message": "It arrives tomorrow before noon."},
            "sendTo": {"recipients": recipients},
            "override": {"channels": ["email"]},
            "lane": if in_bulk { "bulk" } else { "transactional" },
        });
        let accepted = self.post(&body).await;
        match accepted {
            Some(send) => {
                self.backlog.lock().unwrap().accept(send, jobs);
                self.sends.lock().unwrap().push(Accepted { send, at: clock::now(), jobs });
            }
            None => {
                self.refused.fetch_add(jobs, Ordering::AcqRel);
            }
        }
        self.outgoing.fetch_sub(jobs, Ordering::AcqRel);
    }

    /// Returns the id of the send, or None if the answer is not a 202.
    async fn post(&self, body: &Value) -> Option<Uuid> {
        let request = self.client.post(&self.url).json(body);
        let request = request.header("x-service-api-key", &self.key);
        let answer = request.header("x-service-api-secret", &self.secret).send().await.ok()?;
        let is_accepted = answer.status().as_u16() == 202;
        let body: Value = answer.json().await.ok()?;
        is_accepted.then(|| body["requestId"].as_str().and_then(|id| id.parse().ok())).flatten()
    }
}
