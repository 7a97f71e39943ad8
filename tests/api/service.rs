//! The service under test, with its own servers.

use std::net::{SocketAddr, TcpListener};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use credentials::{link, secrets};
use domain::content::{InAppContent, Object};
use domain::id::partition;
use domain::{Actor, AppId, StreamName, UserNumber};
use serde_json::{Value, json};
use service_kit::{Config, Context};
use store::control::app::{NewApp, NewSecret};
use testkit::{Installation, Servers, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Call, call};

pub(crate) const SOON: Duration = Duration::from_secs(20);
const PARTITIONS: u32 = 2;

/// The services that run behind the gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    Nothing,
    /// No service. The streams hold at most this number of messages.
    Streams(i64),
    DispatcherAndInbox,
}

/// A running service. Dropping it stops everything.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    client: reqwest::Client,
    installation: Installation,
}

impl Deref for Service {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl DerefMut for Service {
    fn deref_mut(&mut self) -> &mut Installation {
        &mut self.installation
    }
}

/// An app of the service, with its credentials.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) id: AppId,
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl Service {
    /// Starts the gateway, the dispatcher and the inbox projection.
    pub(crate) async fn start() -> Service {
        Self::start_with(Backing::DispatcherAndInbox).await
    }

    pub(crate) async fn start_with(behind: Backing) -> Service {
        Self::start_as(Servers::start().await, behind, |_| {}).await
    }

    /// Starts all services with a configuration that `configure` changes.
    pub(crate) async fn start_configured(configure: impl FnOnce(&mut Config)) -> Service {
        Self::start_as(Servers::start().await, Backing::DispatcherAndInbox, configure).await
    }

    /// Starts the service on another database server, which the test can stop.
    pub(crate) async fn start_on(database_url: &str, behind: Backing) -> Service {
        Self::start_as(Servers::start_on(database_url).await, behind, |_| {}).await
    }

    /// Starts the service on these servers.
    pub(crate) async fn start_as(
        servers: Servers,
        behind: Backing,
        configure: impl FnOnce(&mut Config),
    ) -> Service {
        let installation = Installation::start_on(servers, |config| {
            config.header_prefixes = vec!["X-SERVICE".to_owned(), "X-ACME".to_owned()];
            config.streams.partitions = PARTITIONS;
            if let Backing::Streams(max_messages) = behind {
                config.nats.max_messages = max_messages;
            }
            // The stand-ins run on this machine.
            config.outbound.allow_private = true;
            // A test makes all its calls from one address, and makes them faster than real users.
            config.gateway.user_rate_limit = 1_000_000;
            config.gateway.peer_rate_limit = 1_000_000;
            config.gateway.refusal_rate_limit = 1_000_000;
            configure(config);
        })
        .await;
        let address = serve(&installation.context, behind);
        let client = reqwest::Client::builder().timeout(SOON).build().unwrap();
        Service { address, client, installation }
    }

    /// Starts another gateway on the same servers, with its own connections. Returns its address and the context that stops
    /// it.
    pub(crate) async fn another_gateway(&self) -> (SocketAddr, Context) {
        let context = self.another().await;
        (serve(&context, Backing::Nothing), context)
    }

    /// Restarts every service.
    pub(crate) async fn restart(&mut self, behind: Backing) {
        self.context.tasks.stop();
        self.context = self.another().await;
        self.address = serve(&self.context, behind);
    }

    /// Creates an app whose API key is its name.
    pub(crate) async fn app(&self, name: &str) -> App {
        let (key, secret) = (name.to_owned(), format!("secret of {name}"));
        let new = NewApp { name, api_key: &key, development: true };
        let draft = self.context.store.control().create_app(new, &Actor::System).await.unwrap().unwrap();
        let digest = secrets::sha256(secret.as_bytes());
        let sealed = self.sealed(draft.id(), &secret);
        let id = draft.commit(NewSecret { digest: &digest, sealed: &sealed }).await.unwrap();
        link::create(&self.context.store, &self.context.master_key, id).await.unwrap();
        App { id, key, secret }
    }

    /// Gives the app a new secret. The previous one stays valid for `grace`.
    pub(crate) async fn rotate(&self, app: &App, secret: &str, grace: Duration) -> App {
        let (digest, sealed) = (secrets::sha256(secret.as_bytes()), self.sealed(app.id, secret));
        let new = NewSecret { digest: &digest, sealed: &sealed };
        assert!(
            self.context.store.control().rotate_secret(app.id, new, grace, &Actor::System).await.unwrap()
        );
        App { secret: secret.to_owned(), ..app.clone() }
    }

    fn sealed(&self, app: AppId, secret: &str) -> Vec<u8> {
        self.context.master_key.seal(&secrets::app_secret_context(app), secret.as_bytes()).unwrap()
    }

    /// Builds a call such as `"GET /v3/notifications"`, without credentials.
    pub(crate) fn call(&self, method_and_path: &str) -> Call {
        self.call_at(self.address, method_and_path)
    }

    /// Builds a call of another gateway, without credentials.
    pub(crate) fn call_at(&self, address: SocketAddr, method_and_path: &str) -> Call {
        let (method, path) = method_and_path.split_once(' ').unwrap();
        call(&self.client, method, &format!("http://{address}{path}"))
    }

    /// Builds a call by the app's backend.
    pub(crate) fn by(&self, app: &App, method_and_path: &str) -> Call {
        self.call(method_and_path)
            .header("X-SERVICE-API-KEY", &app.key)
            .header("X-SERVICE-API-SECRET", &app.secret)
    }

    /// Builds a call by one of the app's users.
    pub(crate) fn of(&self, app: &App, user: &str, method_and_path: &str) -> Call {
        self.call(method_and_path).header("X-SERVICE-API-KEY", &app.key).header("X-SERVICE-USER-ID", user)
    }

    /// Sends raw bytes, and reads the answer until the connection closes.
    pub(crate) async fn raw(&self, request: String) -> String {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(SOON, connection.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    /// Puts `count` items into a user's inbox, titled `1`, `2` and so on, and waits until a list shows them.
    pub(crate) async fn deliver(&self, app: &App, user: &str, count: u32) {
        let before = self.total(app, user).await;
        for index in 1..=count {
            self.publish_item(app, user, &index.to_string()).await;
        }
        let expected = before + i64::from(count);
        eventually(SOON, "delivered items are listed", async || {
            (self.total(app, user).await == expected).then_some(())
        })
        .await;
    }

    /// Publishes the event that adds an item with this title to a user's inbox.
    pub(crate) async fn publish_item(&self, app: &App, user: &str, title: &str) {
        let merged = self.context.store.directory().merge_user(app.id, user, Object::new()).await.unwrap();
        self.publish_item_to(app, merged.number, title).await;
    }

    /// Publishes the event that adds an item to the inbox of an existing user, and writes nothing else about the user.
    pub(crate) async fn publish_item_to(&self, app: &App, user: UserNumber, title: &str) {
        let stream = StreamName::Inbox(partition(app.id, user, PARTITIONS));
        let content = InAppContent { title: Some(title.to_owned()), ..InAppContent::default() };
        let event = suite::items_added(app.id, vec![content], vec![(user, 0)]);
        self.publish(stream, event.encode().unwrap()).await;
    }

    async fn total(&self, app: &App, user: &str) -> i64 {
        let list = self.of(app, user, "GET /v3/notifications").send().await.is(200);
        list["pagination"]["totalCount"].as_i64().unwrap()
    }

    /// Returns the user's list with this query.
    pub(crate) async fn list(&self, app: &App, user: &str, query: &str) -> Value {
        self.of(app, user, &format!("GET /v3/notifications?{query}")).send().await.is(200)
    }

    /// Runs a query that selects one text, and returns the text.
    pub(crate) async fn one_text(&self, query: &'static str) -> String {
        sqlx::query_scalar(query).fetch_one(&self.pool).await.unwrap()
    }

    /// Runs a query that selects one text per row, and returns the texts.
    pub(crate) async fn rows(&self, query: &'static str) -> Vec<String> {
        sqlx::query_scalar(query).fetch_all(&self.pool).await.unwrap()
    }

    /// Returns the number of messages in the streams of sends.
    pub(crate) async fn sends(&self) -> u64 {
        let mut sends = 0;
        for &lane in domain::Lane::ALL {
            sends += self.context.log.state(StreamName::Send(lane)).await.unwrap().messages;
        }
        sends
    }
}

fn serve(context: &Context, behind: Backing) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    context.serve("gateway", |context| gateway::serve(context, listener));
    if behind == Backing::DispatcherAndInbox {
        context.serve("dispatcher", dispatcher::run);
        context.serve("inbox", inbox::run);
    }
    address
}

/// Builds a valid send.
pub(crate) fn plain_send(recipients: &[&str]) -> Value {
    json!({"notification": {"title": "Hello"}, "sendTo": {"recipients": recipients}})
}

/// Returns the titles of the notifications in a list.
pub(crate) fn titles(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|item| item["title"].as_str().unwrap()).collect()
}
