//! Opens connections, and starts the feeds that serve them.

use std::sync::Arc;

use actix_web::web::Data;
use fairness::principal::Principal;
use fairness::quota::{FOR_STRANGERS, Quota};
use fairness::waiting::{WaitError, wait};
use operations::Caller;
use service_kit::Context;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use web::failure::{Failure, crowded};
use web::idle;

use crate::access::identity::user_required;
use crate::realtime::arrival::{Arrival, Feeds, Start};
use crate::realtime::connection::{Client, Connection, OpenConnection};
use crate::realtime::entrance::Entrance;
use crate::realtime::feed::Feed;
use crate::realtime::lobby::{self, Waiting};
use crate::realtime::rounds::Rounds;
use crate::realtime::sources::{Sources, Usage, jittered};
use crate::realtime::update::Moment;
use crate::realtime::web_socket::MESSAGE_ROOM;

/// Number of new connections that wait for a feed.
const ARRIVALS: usize = 1_024;

pub(crate) struct Hub {
    pub(super) sources: Arc<Sources>,
    /// None if this gateway holds no connections.
    inlets: Option<Inlets>,
    entrance: Entrance,
    usage: Arc<Usage>,
    /// Tasks of the connections over WebSocket.
    pub(crate) sockets: TaskTracker,
    /// Memory of the messages over WebSocket of which only a part has arrived.
    pub(super) message_room: Quota,
    /// Path of the public URL, without the host.
    pub(super) public_path: String,
}

struct Inlets {
    feeds: Feeds,
    lobby: mpsc::Sender<Waiting>,
}

/// Starts the feeds and the lobby, which run until `served` is cancelled.
pub(crate) fn start(context: &Context, sources: Sources, served: &CancellationToken) -> Data<Hub> {
    let (sources, usage) = (Arc::new(sources), Arc::new(Usage::default()));
    let rounds = Rounds::start(context);
    let (feeds, arrivals) = Feeds::new(sources.partitions, ARRIVALS);
    let (lobby, waiting) = mpsc::channel(ARRIVALS);
    for (number, arrivals) in (0..).zip(arrivals) {
        let feed = Feed::new(Arc::clone(&sources), Arc::clone(&usage), rounds.clone(), number, arrivals);
        context.spawn("realtime feed", feed.run(served.clone()));
    }
    let passed_on = lobby::run(Arc::clone(&sources), feeds.clone(), waiting, served.clone());
    context.spawn("realtime lobby", passed_on);
    let config = &context.config.gateway;
    Data::new(Hub {
        sources,
        inlets: config.realtime.then_some(Inlets { feeds, lobby }),
        entrance: Entrance::new(config.realtime_connections),
        usage,
        sockets: TaskTracker::new(),
        message_room: Quota::new(MESSAGE_ROOM, FOR_STRANGERS),
        public_path: path_of(context.public_url().unwrap_or_default()).to_owned(),
    })
}

impl Hub {
    /// Returns a 503 if this gateway accepts no connections, or no more.
    pub(super) fn check_open(&self) -> Result<(), Failure> {
        self.inlets().map(drop)
    }

    /// Opens a connection for a user. 503 if this gateway holds no connections, if it stops, or if its entrance does not admit
    /// the connection.
    pub(crate) async fn open(
        &self,
        client: Client,
        principal: Principal,
        caller: &Caller,
        last: Option<&str>,
        busy: Option<idle::Request>,
    ) -> Result<OpenConnection, Failure> {
        let inlets = self.inlets()?;
        let admission = self.entrance.admit(&client, &principal).ok_or_else(full)?;
        let connection = Connection::new(client, admission, self.usage.begin(), busy);
        let connection = OpenConnection(Arc::new(connection));
        let owner = self.sources.inboxes.owner(caller).await?;
        let entered = match (owner, caller.acts_for()) {
            (Some(owner), _) => {
                let start = match last.map(Moment::parse) {
                    None => Start::Now,
                    Some(None) => Start::Lost,
                    Some(Some(moment)) => Start::After(moment),
                };
                let arrival = Arrival { connection: Arc::clone(&connection.0), user: owner.user, start };
                let feed = inlets.feeds.of(&arrival);
                let feed = feed.ok_or_else(|| Failure::Defect("a partition has no feed".to_owned()))?;
                wait(feed.send(arrival)).await.map(|sent| sent.map_err(|_| ()))
            }
            (None, Some(user)) => {
                let waiting = Waiting::new(Arc::clone(&connection.0), user.identifier.clone());
                wait(inlets.lobby.send(waiting)).await.map(|sent| sent.map_err(|_| ()))
            }
            (None, None) => return Err(user_required()),
        };
        match entered {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(())) => Err(Failure::Defect("the feed has ended".to_owned())),
            Err(WaitError::Crowded) => Err(crowded()),
            Err(WaitError::Overdue) => Err(full()),
        }
    }

    fn inlets(&self) -> Result<&Inlets, Failure> {
        let Some(inlets) = &self.inlets else {
            let message = "this gateway serves no live connections; connect to another one";
            return Err(Failure::unavailable(message, "gateway.realtime is false"));
        };
        if self.sources.admission.stopping.is_cancelled() {
            return Err(Failure::unavailable("the gateway stops; connect again", "the process stops"));
        }
        Ok(inlets)
    }
}

/// Creates a 503 for a connection that cannot be opened now.
fn full() -> Failure {
    Failure::Full { seconds: 1 + jittered(9) }
}

/// Returns the path of a URL; empty if it has none.
fn path_of(url: &str) -> &str {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    host.find('/').and_then(|path| host.get(path..)).unwrap_or_default()
}
