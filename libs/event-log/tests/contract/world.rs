//! A private server and a connection to it.

use std::time::Duration;

use async_nats::jetstream;
use domain::{Lane, StreamName};
use event_log::{Access, EventLog, Message, Settings};
use local_servers::NatsServer;

pub(crate) const SENDS: StreamName = StreamName::Send(Lane::Transactional);
pub(crate) const INBOX: StreamName = StreamName::Inbox(0);
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) server: NatsServer,
    pub(crate) log: EventLog,
}

impl World {
    /// Starts a server with the streams [`SENDS`] and [`INBOX`].
    pub(crate) async fn start() -> World {
        let world = World::empty().await;
        world.log.declare(&[SENDS, INBOX]).await.unwrap();
        world
    }

    /// Starts a server without streams.
    pub(crate) async fn empty() -> World {
        let server = NatsServer::start().await.unwrap();
        let log = EventLog::connect(settings(server.url())).await.unwrap();
        World { server, log }
    }

    /// Connects to the server as another client.
    pub(crate) async fn raw(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(self.server.url()).await.unwrap())
    }

    /// Publishes `count` messages with the numbers from 1 as payloads.
    pub(crate) async fn fill(&self, stream: StreamName, count: u64) {
        let messages = (1..=count).map(|number| numbered(stream, number)).collect();
        for (result, number) in self.log.publish_all(messages).await.into_iter().zip(1..) {
            assert_eq!(result.unwrap().seq, number);
        }
    }
}

pub(crate) fn settings(url: &str) -> Settings {
    Settings {
        url: url.to_owned(),
        access: Access::default(),
        replicas: 1,
        max_messages: 100_000,
        connect_timeout: Duration::from_secs(5),
        ack_timeout: Duration::from_secs(5),
    }
}

pub(crate) fn message(stream: StreamName, payload: &str) -> Message {
    Message { stream, id: None, payload: payload.to_owned().into() }
}

pub(crate) fn numbered(stream: StreamName, number: u64) -> Message {
    Message { stream, id: Some(format!("m{number}")), payload: number.to_string().into() }
}

pub(crate) fn number(payload: &[u8]) -> u64 {
    std::str::from_utf8(payload).unwrap().parse().unwrap()
}
