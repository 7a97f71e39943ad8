use std::time::Duration;

use domain::event::bundle;
use domain::{Actor, AppId, Envelope, StreamName};
use event_log::Message;
use service_kit::{Config, Context};
use sqlx::PgPool;
use store::control::app::{NewApp, NewSecret};

use crate::eventually;
use crate::servers::Servers;

const SOON: Duration = Duration::from_secs(60);

/// Private servers, and the context in which services run on them in the process of the test. Dropping this value stops the services.
pub struct Installation {
    pub context: Context,
    /// Connections for SQL statements that `store` does not contain.
    pub pool: PgPool,
    pub servers: Servers,
}

#[allow(clippy::unwrap_used, clippy::panic, reason = "this is how a test fails")]
impl Installation {
    /// `configure` can change the configuration, which is initially [`Servers::config`].
    pub async fn start(configure: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Servers::start().await, configure).await
    }

    pub async fn start_on(servers: Servers, configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = servers.config();
        configure(&mut config);
        servers.prepare(&config).await;
        let pool = PgPool::connect(servers.database_url()).await.unwrap();
        let context = Box::pin(Context::connect(config)).await.unwrap();
        Self { context, pool, servers }
    }

    /// Context on the same servers, as if a second process connected to them.
    pub async fn another(&self) -> Context {
        Box::pin(Context::connect(Config::clone(&self.context.config))).await.unwrap()
    }

    /// The app's name is also its API key and the digest of its secret.
    pub async fn app(&self, name: &str) -> AppId {
        let new = NewApp { name, api_key: name, development: true };
        let draft = self.context.store.control().create_app(new, &Actor::System).await.unwrap().unwrap();
        draft.commit(NewSecret { digest: name.as_bytes(), sealed: b"sealed" }).await.unwrap()
    }

    pub async fn publish(&self, stream: StreamName, payload: Vec<u8>) {
        self.publish_as(None, stream, payload).await;
    }

    /// Publishes with an id by which the log recognises a duplicate.
    pub async fn publish_as(&self, id: Option<String>, stream: StreamName, payload: Vec<u8>) {
        let message = Message { stream, id, payload: payload.into() };
        self.context.log.publish(message).await.unwrap();
    }

    /// Events, oldest first.
    pub async fn events_in(&self, stream: StreamName) -> Vec<Envelope> {
        let state = self.context.log.state(stream).await.unwrap();
        let mut reader = self.context.log.reader(stream, state.first_seq);
        let (mut envelopes, mut read) = (Vec::new(), 0);
        while read < state.messages {
            for record in reader.next_batch(100, Duration::ZERO).await.unwrap() {
                read += 1;
                let parts = bundle::decode(&record.payload).unwrap();
                envelopes.extend(parts.into_iter().map(|part| part.envelope));
            }
        }
        envelopes
    }

    /// Waits until the first `count` messages are acknowledged and none is unacknowledged.
    ///
    /// # Panics
    /// Panics after 60 s.
    pub async fn consumed(&self, stream: StreamName, consumer: &str, count: u64) {
        eventually(SOON, "messages are acknowledged", async || {
            let progress = self.context.log.consumer_progress(stream, consumer).await.unwrap()?;
            (progress.ack_floor == count && progress.ack_pending == 0).then_some(())
        })
        .await;
    }

    pub async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.pool).await.unwrap()
    }

    pub async fn run(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&self.pool).await.unwrap();
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        self.context.tasks.stop();
    }
}
