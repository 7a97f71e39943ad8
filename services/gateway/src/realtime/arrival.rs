//! Way of a new connection to the feed of its user.

use std::sync::Arc;

use domain::UserNumber;
use domain::id::partition;
use tokio::sync::mpsc;

use crate::realtime::connection::Connection;
use crate::realtime::update::Moment;

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

/// Channels to the feeds, by partition.
#[derive(Clone)]
pub(crate) struct Feeds(Vec<mpsc::Sender<Arrival>>);

impl Feeds {
    /// Creates a channel for each partition. Each of them has room for `arrivals` connections.
    pub(crate) fn new(partitions: u32, arrivals: usize) -> (Feeds, Vec<mpsc::Receiver<Arrival>>) {
        let (feeds, receivers) = (0..partitions).map(|_| mpsc::channel(arrivals)).unzip();
        (Feeds(feeds), receivers)
    }

    /// Returns the channel to the feed of an arrival.
    pub(crate) fn of(&self, arrival: &Arrival) -> Option<&mpsc::Sender<Arrival>> {
        let partitions = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let number = partition(arrival.connection.client.app, arrival.user, partitions);
        self.0.get(number as usize)
    }
}
