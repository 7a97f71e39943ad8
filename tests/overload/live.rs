//! Live connections at two gateways, while both are restarted, one is killed, and nats-server is restarted: every client gets each
//! item once, and misses none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::content::{InAppContent, Object};
use domain::id::partition;
use domain::{AppId, StreamName, UserNumber};
use event_log::{EventLog, Message};
use reqwest::{Client, Response};
use serde_json::Value;
use service_kit::{Config, connections};
use suite::{App, Name, Role, System, pace, system};
use testkit::{Servers, eventually};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::scale::Scale;

const SOON: Duration = Duration::from_secs(60);
/// Minimum time between two attempts of a client to connect.
const RECONNECT: Duration = Duration::from_millis(200);
/// Minimum time between two attempts to publish an event.
const REPUBLISH: Duration = Duration::from_millis(100);

pub(crate) struct Report {
    clients: usize,
    items: usize,
    reconnects: usize,
    resets: usize,
    memory: BTreeMap<String, u64>,
}

/// A client of one user, and what it has received.
struct LiveClient {
    user: String,
    /// Address of the client, behind the proxy that this test stands for.
    address: String,
    app: App,
    origins: [String; 2],
    http: Client,
    last_id: Option<String>,
    /// Title of each item, by id.
    items: HashMap<i64, String>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    open: AtomicUsize,
    /// Items that the clients have received.
    items: AtomicUsize,
    reconnects: AtomicUsize,
    resets: AtomicUsize,
}

/// Runs the clients and the faults. `scale.connections` is the number of clients and `scale.transactional_per_second` that of new
/// items.
pub(crate) async fn run(scale: &Scale) -> Report {
    service_kit::install_crypto_provider();
    let settings = [
        ("TIDINGS_LOG__LEVEL", "error"),
        // All clients have the same address.
        ("TIDINGS_GATEWAY__PEER_RATE_LIMIT", "1000000"),
        ("TIDINGS_GATEWAY__CONNECTIONS", "1000000"),
        ("TIDINGS_GATEWAY__TRUSTED_PROXIES", "127.0.0.0/8"),
        ("TIDINGS_GATEWAY__REALTIME_CONNECTIONS", "1000000"),
        ("TIDINGS_GATEWAY__DRAIN", "0s"),
    ];
    let mut system = System::prepare(Servers::start().await, system::addresses(2), settings).await;
    let app = system.create_app("shop", &[]);
    system.start(&[Role::Gateway, Role::Inbox]);
    system.ready().await;
    let users = users(&system, &app, scale.connections).await;

    let (end, counters) = (CancellationToken::new(), Arc::<Counters>::default());
    let clients = start_clients(&system, &app, users.len(), &counters, &end);
    all_open(&counters, users.len()).await;
    let publisher = Publisher { log: system.log.clone(), partitions: system.partitions, app: app.id };
    let publishing = tokio::spawn(publisher.publish(users.clone(), *scale));
    cause_faults(&mut system, &counters, scale).await;
    let published = publishing.await.unwrap();
    let expected: usize = published.values().map(BTreeSet::len).sum();
    let all = async {
        let mut looks = pace(RECONNECT);
        while counters.items.load(Ordering::Acquire) < expected {
            looks.tick().await;
        }
    };
    // If this takes too long, the comparison below shows what is missing.
    timeout(SOON, all).await.ok();
    end.cancel();
    compare(clients.join_all().await, &published);
    system.assert_running();
    let memory = system.processes.iter_mut();
    Report {
        clients: users.len(),
        items: expected,
        reconnects: counters.reconnects.load(Ordering::Acquire),
        resets: counters.resets.load(Ordering::Acquire),
        memory: memory.map(|one| (one.name.to_string(), one.most_memory() / 1024 / 1024)).collect(),
    }
}

/// Starts a client for each user. Half of them prefer the first gateway.
fn start_clients(
    system: &System,
    app: &App,
    users: usize,
    counters: &Arc<Counters>,
    end: &CancellationToken,
) -> JoinSet<(String, HashMap<i64, String>)> {
    let mut clients = JoinSet::new();
    let origins: [String; 2] = system.origins().try_into().unwrap();
    let http = Client::new();
    for index in 0..users {
        let mut origins = origins.clone();
        origins.rotate_left(index % 2);
        let client = LiveClient {
            user: name(index),
            address: format!("10.{}.{}.{}", index >> 16, (index >> 8) & 255, index & 255),
            app: app.clone(),
            origins,
            http: http.clone(),
            last_id: None,
            items: HashMap::new(),
            counters: Arc::clone(counters),
        };
        clients.spawn(client.run(end.clone()));
    }
    clients
}

/// Asserts that each user's client has received what was published for the user, each item once.
fn compare(clients: Vec<(String, HashMap<i64, String>)>, published: &HashMap<String, BTreeSet<String>>) {
    let none = BTreeSet::new();
    for (user, items) in clients {
        let titles: BTreeSet<String> = items.values().cloned().collect();
        assert_eq!(titles.len(), items.len(), "{user} has an item under two ids");
        let published = published.get(&user).unwrap_or(&none);
        let missing: Vec<_> = published.difference(&titles).collect();
        assert!(missing.is_empty() && titles.len() == published.len(), "{user} lacks {missing:?}");
    }
}

fn name(index: usize) -> String {
    format!("user-{index}")
}

async fn users(system: &System, app: &App, count: usize) -> Vec<UserNumber> {
    let mut config = Config::default();
    config.database.url = Some(system.servers.database_url().parse().unwrap());
    let store = connections::store(&config, SOON).await.unwrap();
    let mut users = Vec::with_capacity(count);
    for index in 0..count {
        users.push(store.directory().merge_user(app.id, &name(index), Object::new()).await.unwrap().number);
    }
    users
}

async fn all_open(counters: &Counters, clients: usize) {
    eventually(SOON, "all clients are connected", async || {
        (counters.open.load(Ordering::Acquire) == clients).then_some(())
    })
    .await;
}

/// Restarts both gateways one after the other, kills one, and restarts nats-server. Waits for all clients in between.
async fn cause_faults(system: &mut System, counters: &Counters, scale: &Scale) {
    let gateway = |number| Name { role: Role::Gateway, number };
    let http = system.client.clone();
    let items = scale.span.as_secs() * u64::from(scale.transactional_per_second);
    // Waits until the clients have received this many eighths of all items.
    let received = async |eighths: u64| {
        eventually(SOON + scale.span, "the next fault is due", async || {
            (counters.items.load(Ordering::Acquire) as u64 >= items * eighths / 8).then_some(())
        })
        .await;
    };
    for number in [1, 2] {
        received(number as u64).await;
        system.process_mut(gateway(number)).restart_orderly(&http).await;
        all_open(counters, scale.connections).await;
    }
    received(3).await;
    let process = system.process_mut(gateway(1));
    process.service.kill();
    process.restart(&[]);
    process.ready(&http).await;
    all_open(counters, scale.connections).await;
    received(4).await;
    system.servers.nats.kill();
    system.servers.nats.restart().await.unwrap();
    received(5).await;
    all_open(counters, scale.connections).await;
}

struct Publisher {
    log: EventLog,
    partitions: u32,
    app: AppId,
}

impl Publisher {
    /// Publishes items at a constant rate. Returns the titles of each user.
    async fn publish(self, users: Vec<UserNumber>, scale: Scale) -> HashMap<String, BTreeSet<String>> {
        let mut published: HashMap<String, BTreeSet<String>> = HashMap::new();
        let mut tick = pace(Duration::from_secs(1) / scale.transactional_per_second);
        let items = scale.span.as_secs() as usize * scale.transactional_per_second as usize;
        for number in 0..items {
            tick.tick().await;
            let index = (number * 7_919) % users.len();
            self.add(users[index], &number.to_string()).await;
            published.entry(name(index)).or_default().insert(number.to_string());
        }
        published
    }

    /// Publishes an item, also if the log is unavailable at first. The message id prevents a second one.
    async fn add(&self, user: UserNumber, title: &str) {
        let content = InAppContent { title: Some(title.to_owned()), ..InAppContent::default() };
        let event = suite::items_added(self.app, vec![content], vec![(user, 0)]);
        let stream = StreamName::Inbox(partition(self.app, user, self.partitions));
        let payload = event.encode().unwrap();
        let until = Instant::now() + SOON;
        let mut attempts = pace(REPUBLISH);
        loop {
            attempts.tick().await;
            let message = Message { stream, id: Some(event.id.to_string()), payload: payload.clone().into() };
            match self.log.publish(message).await {
                Ok(_) => return,
                Err(error) => assert!(Instant::now() < until, "cannot publish: {error}"),
            }
        }
    }
}

impl LiveClient {
    async fn run(mut self, end: CancellationToken) -> (String, HashMap<i64, String>) {
        let mut attempts = pace(RECONNECT);
        let read = async {
            loop {
                attempts.tick().await;
                self.connect_and_read().await;
                self.counters.reconnects.fetch_add(1, Ordering::AcqRel);
                self.origins.rotate_left(1);
            }
        };
        end.run_until_cancelled(read).await;
        (self.user, self.items)
    }

    /// Reads updates until the connection ends.
    async fn connect_and_read(&mut self) {
        let mut request = self
            .http
            .get(format!("{}/v3/stream", self.origins[0]))
            .header("X-SERVICE-API-KEY", &self.app.key)
            .header("X-SERVICE-USER-ID", &self.user)
            .header("X-Forwarded-For", &self.address);
        if let Some(last) = &self.last_id {
            request = request.header("Last-Event-ID", last);
        }
        let Ok(Ok(response)) = timeout(SOON, request.send()).await else { return };
        if response.status() == 200 {
            let open = Arc::clone(&self.counters);
            open.open.fetch_add(1, Ordering::AcqRel);
            self.read(response).await;
            open.open.fetch_sub(1, Ordering::AcqRel);
        }
    }

    async fn read(&mut self, mut response: Response) {
        let mut text = String::new();
        let mut created_here = BTreeSet::new();
        // A comment arrives every 25 s, so a longer silence is a fault.
        while let Ok(Ok(Some(chunk))) = timeout(SOON, response.chunk()).await {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((block, rest)) = text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                text = rest;
                if !self.apply(&block, &mut created_here).await {
                    return;
                }
            }
        }
    }

    /// Applies an update. Returns false if the client must connect again.
    async fn apply(&mut self, block: &str, created_here: &mut BTreeSet<i64>) -> bool {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        if let Some(id) = field("id: ") {
            self.last_id = Some(id.to_owned());
        }
        let data: Value = serde_json::from_str(field("data: ").unwrap_or("null")).unwrap();
        match field("event: ") {
            Some("notification.created") => {
                let item = &data["notification"];
                let id = item["id"].as_i64().unwrap();
                assert!(created_here.insert(id), "{} got item {id} twice on one connection", self.user);
                self.keep(item);
            }
            Some("reset") => {
                self.counters.resets.fetch_add(1, Ordering::AcqRel);
                return self.fetch().await;
            }
            _ => {}
        }
        true
    }

    /// Fetches the list. If that fails, returns false, and the next connection starts with another reset.
    async fn fetch(&mut self) -> bool {
        let mut page = 1;
        loop {
            let call = self
                .http
                .get(format!("{}/v3/notifications?limit=20&pageNo={page}", self.origins[0]))
                .header("X-SERVICE-API-KEY", &self.app.key)
                .header("X-SERVICE-USER-ID", &self.user);
            let list = match call.send().await {
                Ok(answer) if answer.status() == 200 => answer.json::<Value>().await.ok(),
                _ => None,
            };
            let Some(list) = list else {
                self.last_id = Some("fetch-again".to_owned());
                return false;
            };
            list["data"].as_array().unwrap().iter().for_each(|item| self.keep(item));
            if list["pagination"]["pageCount"].as_i64().unwrap() <= page {
                return true;
            }
            page += 1;
        }
    }

    fn keep(&mut self, item: &Value) {
        let title = item["title"].as_str().unwrap().to_owned();
        if self.items.insert(item["id"].as_i64().unwrap(), title).is_none() {
            self.counters.items.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { clients, items, reconnects, resets, memory } = self;
        writeln!(
            f,
            "live: {clients} clients got {items} items, with {reconnects} new connections and {resets} resets"
        )?;
        writeln!(f, "peak memory in MiB: {memory:?}")
    }
}
