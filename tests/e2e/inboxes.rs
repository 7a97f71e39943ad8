//! An installation that runs the inbox service only, and a log with all kinds of inbox events.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use domain::content::InAppContent;
use domain::event::{
    AllItemsChanged, ItemStateSet, ItemsAdded, ItemsChanged, ItemsSnoozed, SnoozesEnded, UserErased,
};
use domain::id::partition;
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, CategoryId, Envelope, Event, ItemId, SendId, StreamName, Timestamp, UserNumber};
use event_log::{EventLog, Message};
use local_servers::NatsServer;
use service_kit::{Config, connections, installation};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, PgPool};
use store::Store;
use store::inbox::projection::INBOX;
use suite::RandomNumbers;
use testkit::{Database, Service, eventually};
use uuid::Uuid;

use crate::directory::{Answer, Directory};

pub(crate) const SOON: Duration = Duration::from_secs(60);
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../libs/store/migrations");
const PARTITIONS: u32 = 2;
const APPS: u64 = 2;
const USERS: u64 = 60;
/// Time until which items are snoozed, so that no service ends the snooze.
const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) struct Inboxes {
    pub(crate) database: PgPool,
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    /// The service that projects the inbox.
    _service: Service,
    random: RefCell<RandomNumbers>,
    /// True if some events archive and snooze items, which releases before 0.5.0 do not know.
    pub(crate) hides_items: Cell<bool>,
    /// Items that were published, by user.
    items: RefCell<HashMap<(AppId, UserNumber), Vec<ItemId>>>,
    directory: Arc<Directory>,
    servers: Servers,
}

struct Servers {
    database: Database,
    database_url: String,
    nats: NatsServer,
}

impl Inboxes {
    pub(crate) async fn start() -> Inboxes {
        let database = Database::with_schema().await;
        let database_url = database.url().to_owned();
        let nats = NatsServer::start().await.unwrap();
        let directory = Arc::new(Directory::new());
        let key_file = directory.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let mut config = Config::default();
        config.database.url = Some(database_url.parse().unwrap());
        config.nats.url = Some(nats.url().parse().unwrap());
        let store = connections::store(&config, SOON).await.unwrap();
        let log = connections::event_log(&config, SOON).await.unwrap();
        store.migrate().await.unwrap();
        installation::prepare(&store, &log, PARTITIONS).await.unwrap();
        let environment = [
            ("DATABASE_URL", database_url.as_str()),
            ("NATS_URL", nats.url()),
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
        ];
        let service = Service::start("tidings-inbox", &[], &environment).unwrap();
        let pool = PgPool::connect(&database_url).await.unwrap();
        for (id, name) in [(1_i64, "shop"), (2, "bank")] {
            sqlx::query("INSERT INTO app (id, name, api_key) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $2)")
                .bind(id)
                .bind(name)
                .execute(&pool)
                .await
                .unwrap();
        }
        Inboxes {
            database: pool,
            store,
            log,
            _service: service,
            random: RefCell::new(RandomNumbers(42)),
            hides_items: Cell::new(true),
            items: RefCell::default(),
            directory,
            servers: Servers { database, database_url, nats },
        }
    }

    /// Publishes this number of events: mostly new items, and all kinds of changes to items.
    pub(crate) async fn publish(&self, events: usize) {
        let mut left = events;
        while left > 0 {
            let chunk = left.min(200);
            let made: Vec<(StreamName, Envelope)> = (0..chunk).map(|_| self.event()).collect();
            self.append(&made).await;
            left -= chunk;
        }
    }

    /// Publishes one event to its partition, and returns its sequence.
    pub(crate) async fn publish_event(&self, app: AppId, user: UserNumber, event: Event) -> u64 {
        let envelope = self.envelope(app, None, event);
        self.append(&[(StreamName::Inbox(partition(app, user, PARTITIONS)), envelope)]).await[0]
    }

    async fn append(&self, events: &[(StreamName, Envelope)]) -> Vec<u64> {
        let message = |(stream, envelope): &(StreamName, Envelope)| Message {
            stream: *stream,
            id: None,
            payload: envelope.encode().unwrap().into(),
        };
        let appended = self.log.publish_all(events.iter().map(message).collect()).await;
        let mut seqs = Vec::new();
        for ((stream, envelope), appended) in events.iter().zip(appended) {
            let seq = appended.unwrap().seq;
            seqs.push(seq);
            let (StreamName::Inbox(number), Event::InboxItemsAdded(added)) = (stream, &envelope.event) else {
                continue;
            };
            for (index, (user, _)) in (0..).zip(&added.recipients) {
                let id = ItemId::derive(seq, *number, PARTITIONS, index).unwrap();
                self.items.borrow_mut().entry((envelope.app, *user)).or_default().push(id);
            }
        }
        seqs
    }

    fn event(&self) -> (StreamName, Envelope) {
        let below = |end| self.random.borrow_mut().below(end);
        let app = AppId(below(APPS).cast_signed() + 1);
        let user = UserNumber(below(USERS).cast_signed() + 1);
        let home = partition(app, user, PARTITIONS);
        let known = self.items.borrow().get(&(app, user)).cloned().unwrap_or_default();
        let some = |known: &[ItemId]| known[usize::try_from(below(known.len() as u64)).unwrap()];
        let event = match below(10) {
            0 | 1 if !known.is_empty() => {
                let items = (0..=below(3)).map(|_| some(&known)).collect();
                let end = if self.hides_items.get() { 7 } else { 5 };
                let change = ItemChange::ALL[usize::try_from(below(end)).unwrap()];
                Event::InboxItemsChanged(change, ItemsChanged { user, items })
            }
            2 if !known.is_empty() && self.hides_items.get() && below(2) == 0 => {
                self.snooze(user, some(&known), below(3) > 0)
            }
            2 if !known.is_empty() => {
                let state = (below(3) > 0).then(|| format!("state {}", below(9)));
                Event::InboxItemStateSet(ItemStateSet { user, item: some(&known), state })
            }
            3 if !known.is_empty() && below(4) == 0 => {
                let change = [AllChange::Seen, AllChange::Read, AllChange::Deleted]
                    [usize::try_from(below(3)).unwrap()];
                Event::InboxAllChanged(change, AllItemsChanged { user, up_to: some(&known) })
            }
            _ => {
                // Most sends get a new id. One in forty gets one of fifty fixed ids, so that some sends repeat and their items
                // already exist.
                let send =
                    SendId(Uuid::from_u128(u128::from(below(if below(40) == 0 { 50 } else { u64::MAX }))));
                let others = (1..=USERS.cast_signed()).map(UserNumber);
                let recipients = others
                    .filter(|other| {
                        partition(app, *other, PARTITIONS) == home && (*other == user || below(10) == 0)
                    })
                    .map(|user| (user, 0))
                    .collect();
                let title = Some(format!("News {}", below(1_000)));
                let added = ItemsAdded {
                    created_at: self.now(),
                    category_id: (below(2) == 0).then_some(CategoryId(7)),
                    first: 0,
                    contents: vec![InAppContent { title, ..InAppContent::default() }],
                    recipients,
                };
                return (
                    StreamName::Inbox(home),
                    self.envelope(app, Some(send), Event::InboxItemsAdded(added)),
                );
            }
        };
        (StreamName::Inbox(home), self.envelope(app, None, event))
    }

    fn snooze(&self, user: UserNumber, item: ItemId, begins: bool) -> Event {
        let (items, until) = (vec![item], self.now() + FAR);
        if begins {
            Event::InboxItemsSnoozed(ItemsSnoozed { user, items, until })
        } else {
            Event::InboxSnoozesEnded(SnoozesEnded { user, items, due: None })
        }
    }

    fn now(&self) -> Timestamp {
        START + Duration::from_millis(self.random.borrow_mut().below(86_400_000))
    }

    fn envelope(&self, app: AppId, send_id: Option<SendId>, event: Event) -> Envelope {
        let id = Uuid::from_u128(u128::from(self.random.borrow_mut().below(u64::MAX)));
        Envelope { id, app, at: self.now(), send_id, caused_by: None, trace: None, event }
    }

    /// Records the erasure of a user in the table `erased`, but publishes no event. `is_done` is false while the erasure is in
    /// progress.
    pub(crate) async fn note_erasure(&self, app: AppId, user: UserNumber, is_done: bool) {
        let done = if is_done { "now()" } else { "NULL" };
        let statement = format!(
            "INSERT INTO erased (app_id, user_number, erased_at, done_at) VALUES ({app}, {user}, now(), {done})
             ON CONFLICT (app_id, user_number) DO UPDATE SET done_at = excluded.done_at"
        );
        self.execute(&statement).await;
    }

    /// Publishes the erasure event to the inbox.
    pub(crate) async fn publish_erasure(&self, app: AppId, user: UserNumber) {
        self.publish_event(app, user, Event::UserErased(UserErased { user, digest: None })).await;
    }

    /// Waits until the live inbox has all events that were published so far.
    pub(crate) async fn projected(&self) {
        for number in 0..PARTITIONS {
            let stream = StreamName::Inbox(number);
            let last = self.log.state(stream).await.unwrap().last_seq;
            eventually(SOON, "all events are projected", async || {
                (self.store.database().checkpoint(INBOX, stream).await.unwrap() >= last).then_some(())
            })
            .await;
        }
    }

    pub(crate) async fn execute(&self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&self.database).await.unwrap();
    }

    /// Returns the single value of a query as text.
    pub(crate) async fn text(&self, query: &str) -> String {
        let query = format!("SELECT ({query})::text");
        sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&self.database).await.unwrap()
    }

    /// Backs up the current database, and restores the backup into a new one.
    pub(crate) async fn backed_up(&self) -> Database {
        let file = self.directory.path().join("backup");
        self.servers.database.dump(&file).unwrap();
        Database::restored(&file).await.unwrap()
    }

    /// Restores a backup with the schema of a release that does not detect restored backups.
    pub(crate) async fn backed_up_by_an_earlier_release(&self) -> Database {
        const VERSION: i64 = 15;
        let earlier = Database::create().await;
        let pool = PgPool::connect(earlier.url()).await.unwrap();
        let migrations = Migrator::new(Path::new(MIGRATIONS)).await.unwrap();
        migrations.run_to(VERSION, &pool).await.unwrap();
        for table in ["installation", "stream_identity", "checkpoint", "inbox_item", "inbox_counter"] {
            let read = format!("SELECT coalesce(json_agg(t), '[]')::text FROM {table} t");
            let rows: String =
                sqlx::query_scalar(AssertSqlSafe(read)).fetch_one(&self.database).await.unwrap();
            let write =
                format!("INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, $1::json)");
            sqlx::query(AssertSqlSafe(write)).bind(rows).execute(&pool).await.unwrap();
        }
        earlier
    }

    /// Does what the janitor would do later: removes from the log the events that the live inbox has already applied. Returns the
    /// first remaining sequence of each partition.
    pub(crate) async fn shorten_log(&self) -> Vec<u64> {
        let mut starts = Vec::new();
        for number in 0..PARTITIONS {
            let stream = StreamName::Inbox(number);
            let start = self.store.database().checkpoint(INBOX, stream).await.unwrap() + 1;
            self.log.purge_below(stream, start).await.unwrap();
            starts.push(start);
        }
        starts
    }

    /// Runs `tidings` on this installation, and waits for its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Answer {
        let directory = Arc::clone(&self.directory);
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let variables = self.variables().map(|(name, value)| (name, value.to_owned()));
        let run = tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let variables: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (*name, &**value)).collect();
            directory.run_with(&arguments, &variables, "")
        });
        run.await.unwrap()
    }

    /// Starts `tidings` on this installation, with its standard error in a pipe.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(testkit::binary("tidings"));
        command.args(arguments).envs(self.variables()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Waits until PostgreSQL has released the lock of a killed rebuild.
    pub(crate) async fn await_no_rebuild(&self) {
        let locks = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
                     WHERE locktype = 'advisory' AND datname = current_database()";
        eventually(SOON, "the lock is free", async || (self.text(locks).await == "0").then_some(())).await;
    }

    fn variables(&self) -> [(&'static str, &str); 3] {
        [
            ("DATABASE_URL", &self.servers.database_url),
            ("NATS_URL", self.servers.nats.url()),
            ("TIDINGS_CONFIG", ""),
        ]
    }
}
