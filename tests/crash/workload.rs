//! Load during the faults: clients make sends, and users list and change their inboxes. A journal records the answers.

mod measurement;
mod notice;
mod pace;
mod people;
pub(crate) mod poison;
mod probe;
mod readers;
mod senders;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::Channel;
use event_log::EventLog;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use suite::checkpoint::Checkpoint;
use suite::{Api, claims};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use notice::Notice;
pub(crate) use people::{People, email, identifier};
pub(crate) use probe::VisibleSend;
pub(crate) use readers::read_page;

use crate::checkpoints::{self, Sampler};
use crate::dice::Dice;
use crate::journal::Journal;
use crate::redelivery::Watch;
use crate::scene::{Fault, Scene};
use crate::workload::pace::Pace;
use crate::workload::probe::Probe;

/// Number of users in one call of `POST /v3/users/bulk`.
const USERS_AT_ONCE: usize = 500;
/// Number of concurrent subscriptions of browsers.
const BROWSERS_AT_ONCE: usize = 16;
/// Interval between bursts of the large app: so short that some bursts fall in periods without faults.
const BURST_EVERY: Duration = Duration::from_secs(5);
/// Interval at which a user visits their inbox.
const ROUND_EVERY: Duration = Duration::from_secs(20);
/// Maximum number of database connections of the workload and the checks.
const CONNECTIONS: u32 = 4;
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) users: usize,
    /// Number of sends.
    pub(crate) notices: usize,
    /// Number of these sends that are made before the load, to measure the speed of the system.
    pub(crate) measured: usize,
    pub(crate) clients: usize,
    /// Time over which the sends are spread. It should be longer than the schedule of faults, so that some sends meet no fault.
    pub(crate) lasting: Duration,
    /// Maximum time from the first try of a scheduled send to its scheduled time.
    pub(crate) ahead: Duration,
    pub(crate) burst_every: Duration,
    /// Number of visits that each reader makes to their inbox. Every fifth user is a reader.
    pub(crate) rounds: u32,
    /// Number of changes of email addresses.
    pub(crate) moves: usize,
    /// Number of users whose addresses change.
    pub(crate) movers: usize,
}

impl Size {
    /// Size of a load of at least this many notifications.
    pub(crate) fn of(notifications: usize, lasting: Duration) -> Size {
        // Add 5 %, because the number of recipients per send is random.
        let notices = (notifications + notifications / 20).div_ceil(notice::AVERAGE);
        Size {
            users: 2_000,
            notices,
            measured: measurement::SENDS.min(notices / 10),
            clients: 24,
            lasting,
            ahead: Duration::from_secs(20),
            burst_every: BURST_EVERY,
            rounds: u32::try_from(lasting.as_secs() / ROUND_EVERY.as_secs()).unwrap(),
            moves: notices / 20,
            movers: 200,
        }
    }

    /// Sends per second of the load.
    pub(crate) fn sends_per_second(&self) -> f64 {
        (self.notices - self.measured) as f64 / self.lasting.as_secs_f64()
    }
}

/// A load that is ready to run.
pub(crate) struct Workload {
    pub(crate) size: Size,
    pub(crate) people: People,
    pub(crate) dice: Dice,
    /// For each client, the numbers of the sends that it makes. The large app has its own clients; the small apps share the other
    /// clients.
    sends: Vec<Vec<usize>>,
    /// Push endpoints of the users' browsers, by user.
    browsers: BTreeMap<usize, String>,
    /// API clients by app and gateway.
    apis: Vec<Vec<Api>>,
    database: PgPool,
    log: EventLog,
    journal: Journal,
}

/// Observations made while the load ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    pub(crate) visible: Vec<VisibleSend>,
    pub(crate) samples: Vec<Checkpoint>,
    pub(crate) redeliveries: Vec<Fault>,
    /// Request of the send whose handling ends the process.
    pub(crate) poison: Uuid,
}

impl Workload {
    /// Creates the users, and installs the database triggers that record claims and checkpoints.
    pub(crate) async fn prepare(scene: &Scene, size: Size) -> Workload {
        let options = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECTED_WITHIN);
        let database = options.connect(&scene.database_url).await.unwrap();
        claims::record(&database).await;
        checkpoints::record(&database).await;
        probe::create_index(&database).await;
        let api = |app: usize, gateway: &String| Api::new(gateway, &scene.apps[app]);
        let apis: Vec<Vec<Api>> = (0..scene.apps.len())
            .map(|app| scene.gateways.iter().map(|gateway| api(app, gateway)).collect())
            .collect();
        let people = People { users: size.users, apps: apis.len() };
        let mut browsers = BTreeMap::new();
        for (app, apis) in apis.iter().enumerate() {
            browsers.extend(create_users(&apis[0], people.of_app(app).collect(), &scene.push_origin).await);
        }
        let (dice, journal, log) =
            (Dice(scene.seed), Journal::begin(&scene.journals), scene.event_log().await);
        Workload {
            size,
            people,
            dice,
            sends: sends(size, people, dice),
            browsers,
            apis,
            database,
            log,
            journal,
        }
    }

    /// Targets of a user at the start, as the ledger names them.
    pub(crate) fn targets(&self, user: usize) -> BTreeMap<Channel, BTreeSet<String>> {
        let mut targets = people::targets(user);
        let browser = self.browsers.get(&user);
        targets.extend(browser.map(|endpoint| (Channel::WebPush, [endpoint.clone()].into())));
        targets
    }

    /// Derives the send with this number.
    pub(crate) fn notice(&self, number: usize) -> Notice {
        Notice::new(self.dice, self.people, self.size.ahead, number)
    }

    /// Spreads the load over a longer time, for a slow machine. The sends stay the same.
    pub(crate) fn stretch(&mut self, factor: f64) {
        self.size.lasting = self.size.lasting.mul_f64(factor);
        self.size.burst_every = self.size.burst_every.mul_f64(factor);
    }

    /// Runs the load. Returns when every send is confirmed and every user has made all visits.
    pub(crate) async fn run(self: &Arc<Self>) -> Observations {
        let (sampler, probe) = (Sampler::start(&self.database), Probe::start(&self.database));
        let watch = Watch::start(self.log.clone());
        let mut busy = JoinSet::new();
        for client in 0..self.size.clients {
            busy.spawn(Arc::clone(self).send_all(client, probe.clone()));
        }
        for user in (0..self.size.users).filter(|user| people::is_reader(*user)) {
            busy.spawn(Arc::clone(self).read(user));
        }
        busy.spawn(Arc::clone(self).change_addresses());
        let (poison, _) = tokio::join!(self.send_poison(), busy.join_all());
        let (samples, redeliveries) = (sampler.stop(), watch.stop());
        Observations { visible: probe.stop().await, samples, redeliveries, poison }
    }

    /// API client of an app at one of the two gateways.
    fn api(&self, app: usize, gateway: usize) -> &Api {
        let apis = &self.apis[app];
        &apis[gateway % apis.len()]
    }

    /// Returns true if the latency of the send is measured: it goes to the inbox and is not scheduled for later.
    fn is_measured(&self, notice: &Notice) -> bool {
        notice.delay.is_none() && notice.channels.contains(&Channel::InApp)
    }

    /// Returns a pace of `times` steps during the load.
    fn pace(&self, times: usize) -> Pace {
        self.pace_from(times, 0)
    }

    /// Like [`pace`](Self::pace), but the first step is delayed by `late` percent of the interval.
    fn pace_from(&self, times: usize, late: usize) -> Pace {
        let period = self.size.lasting / u32::try_from(times.max(1)).unwrap();
        Pace::new(Instant::now() + period * u32::try_from(late).unwrap() / 100, period)
    }
}

/// Divides the sends of the load among the clients.
fn sends(size: Size, people: People, dice: Dice) -> Vec<Vec<usize>> {
    let of_large = if people.apps == 1 { size.clients } else { size.clients * notice::LARGE / 100 };
    let (mut large, mut small) = ((0..of_large).cycle(), (of_large..size.clients).cycle());
    let mut sends = vec![Vec::new(); size.clients];
    for number in size.measured..size.notices {
        let clients = if notice::app(dice, people, number) == 0 { &mut large } else { &mut small };
        sends[clients.next().unwrap()].push(number);
    }
    sends
}

/// Creates users and the topics to which they subscribe, and returns the push endpoints of those who have a browser.
async fn create_users(api: &Api, users: Vec<usize>, push_origin: &str) -> BTreeMap<usize, String> {
    for users in users.chunks(USERS_AT_ONCE) {
        let documents: Vec<Value> = users.iter().map(|user| people::document(*user)).collect();
        api.create_users(&documents).await;
    }
    for (topic, subscribers) in notice::topics(&users) {
        let subscribers: Vec<String> = subscribers.into_iter().map(identifier).collect();
        let call = api.call(Method::POST, &format!("/v3/topics/{topic}/subscriptions"));
        Api::answer(call.json(&json!({"add": subscribers})), 200).await;
    }
    let with_browser: Vec<usize> = users.into_iter().filter(|user| people::has_browser(*user)).collect();
    let mut browsers = BTreeMap::new();
    for users in with_browser.chunks(BROWSERS_AT_ONCE) {
        let subscribing = users.iter().map(|user| async {
            let browser = api.at(push_origin).call(Method::POST, "/subscriptions").json(&json!({}));
            let (status, subscription) = Api::try_once(browser).await.unwrap();
            assert!((200..300).contains(&status), "{status}: {subscription}");
            api.subscribe(&identifier(*user), &subscription).await;
            (*user, subscription["endpoint"].as_str().unwrap().to_owned())
        });
        browsers.extend(futures_util::future::join_all(subscribing).await);
    }
    browsers
}
