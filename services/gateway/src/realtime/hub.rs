//! Opens connections, and starts the feeds that serve them.

use std::sync::Arc;

use actix_web::web::Data;
use domain::UserNumber;
use domain::id::partition;
use service_kit::{Context, clock};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::http::failure::{Failure, crowded};
use crate::http::shares::holder::Holder;
use crate::http::shares::idle;
use crate::http::waiting::{WaitError, database, wait};
use crate::realtime::connection::{Client, Connection, OpenConnection};
use crate::realtime::entrance::Entrance;
use crate::realtime::feed::Feed;
use crate::realtime::lobby::{self, Waiting};
use crate::realtime::update::Moment;

/// Number of new connections that wait for a feed.
const ARRIVALS: usize = 1_024;

/// A new connection for a feed.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) connection: Arc<Connection>,
    pub(crate) user: UserNumber,
    pub(crate) start: Start,
}

/// Position at which a connection starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the next change.
    Now,
    /// After the last position that the client has received.
    After(Moment),
    /// With the next change. The client sent an unusable position.
    Lost,
    /// With the next change. The user was created after the connection was opened, so the client has nothing yet.
    Created,
}

/// Opens connections.
pub(crate) struct Hub {
    /// None if this gateway holds no connections.
    inlets: Option<Inlets>,
    entrance: Entrance,
    partitions: u32,
    /// Every connection has a clone.
    open: Arc<()>,
    /// Notifies the feeds of new connections.
    opened: watch::Sender<()>,
}

struct Inlets {
    feeds: Vec<mpsc::Sender<Arrival>>,
    lobby: mpsc::Sender<Waiting>,
}

/// The other ends of a hub's channels, which [`start`] gives to the feeds.
pub(crate) struct Exits {
    feeds: Vec<mpsc::Receiver<Arrival>>,
    lobby: mpsc::Receiver<Waiting>,
}

impl Hub {
    /// Creates the hub. Connections wait until [`start`] has started the feeds.
    pub(crate) fn new(config: &service_kit::config::Gateway, partitions: u32) -> (Hub, Exits) {
        let (feeds, of_feeds) = (0..partitions).map(|_| mpsc::channel(ARRIVALS)).unzip();
        let (lobby, of_lobby) = mpsc::channel(ARRIVALS);
        let hub = Hub {
            inlets: config.realtime.then_some(Inlets { feeds, lobby }),
            entrance: Entrance::new(config.realtime_connections),
            partitions,
            open: Arc::default(),
            opened: watch::Sender::default(),
        };
        (hub, Exits { feeds: of_feeds, lobby: of_lobby })
    }
}

impl Hub {
    /// Returns true if this gateway has a connection.
    pub(super) fn is_used(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    /// Returns a channel that changes when a connection is opened.
    pub(super) fn opened(&self) -> watch::Receiver<()> {
        self.opened.subscribe()
    }

    /// Returns true if this gateway holds connections at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.inlets.is_some()
    }
}

impl Gateway {
    /// Opens a connection for a user. 503 if this gateway holds no connections, if it stops, or if its entrance does not admit
    /// the connection.
    pub(crate) async fn open_connection(
        &self,
        client: Client,
        holder: Holder,
        user: &str,
        last: Option<&str>,
        busy: Option<idle::Request>,
    ) -> Result<OpenConnection, Failure> {
        let Some(inlets) = &self.realtime.inlets else {
            let message = "this gateway serves no live connections; connect to another one";
            return Err(Failure::unavailable(message, "gateway.realtime is false"));
        };
        if self.stopping.is_cancelled() {
            return Err(Failure::unavailable("the gateway stops; connect again", "the process stops"));
        }
        let app = client.app;
        let admission = self.realtime.entrance.admit(&client, &holder).ok_or_else(full)?;
        let open = Arc::clone(&self.realtime.open);
        let connection = OpenConnection(Arc::new(Connection::new(client, admission, open, busy)));
        self.realtime.opened.send_replace(());
        let owner = database(self.store.inbox().inbox_owner(app, user)).await?;
        let entered = match owner {
            Some(owner) => {
                let start = match last.map(Moment::parse) {
                    None => Start::Now,
                    Some(None) => Start::Lost,
                    Some(Some(moment)) => Start::After(moment),
                };
                let number = partition(app, owner.user, self.realtime.partitions);
                let arrival = Arrival { connection: Arc::clone(&connection.0), user: owner.user, start };
                let feed = inlets.feeds.get(number as usize);
                let feed = feed.ok_or_else(|| Failure::Defect(format!("no feed of partition {number}")))?;
                wait(feed.send(arrival)).await.map(|sent| sent.map_err(|_| ()))
            }
            None => {
                let waiting = Waiting::new(Arc::clone(&connection.0), user.to_owned());
                wait(inlets.lobby.send(waiting)).await.map(|sent| sent.map_err(|_| ()))
            }
        };
        match entered {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(())) => Err(Failure::Defect("the feed has ended".to_owned())),
            Err(WaitError::Crowded) => Err(crowded()),
            Err(WaitError::Overdue) => Err(full()),
        }
    }

    /// Passes a connection to the feed of its user, who was created after the connection was opened. Returns false if the feed cannot
    /// receive it now.
    pub(super) fn leave_lobby(&self, connection: &Arc<Connection>, user: UserNumber) -> bool {
        let number = partition(connection.client.app, user, self.realtime.partitions);
        let feed = self.realtime.inlets.as_ref().and_then(|all| all.feeds.get(number as usize));
        let arrival = Arrival { connection: Arc::clone(connection), user, start: Start::Created };
        feed.is_some_and(|feed| feed.try_send(arrival).is_ok())
    }
}

/// Starts the feeds and the lobby, which run until `served` is cancelled.
pub(crate) fn start(context: &Context, gateway: &Data<Gateway>, exits: Exits, served: &CancellationToken) {
    for (number, arrivals) in (0..).zip(exits.feeds) {
        let feed = Feed::new(gateway.clone().into_inner(), number, arrivals);
        context.spawn("realtime feed", feed.run(served.clone()));
    }
    context.spawn("realtime lobby", lobby::run(gateway.clone().into_inner(), exits.lobby, served.clone()));
}

/// Creates a 503 for a connection that cannot be opened now.
fn full() -> Failure {
    Failure::Full { seconds: 1 + jittered(9) }
}

/// Returns a random number of seconds up to `most`, so that clients do not all connect again at once.
pub(crate) fn jittered(most: u64) -> u64 {
    let seconds = clock::random() * (most + 1) as f64;
    (seconds as u64).min(most)
}
