//! Shares of the gateway's open connections.

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use moka::future::Cache;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use service_kit::Network;
use service_kit::config::Gateway;
use socket2::SockRef;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::http::shares::holder::{Holder, Proof};
use crate::http::shares::idle::Watch;
use crate::http::shares::peer::Peer;
use crate::http::shares::room::{FOR_PEERS, Room};

/// Time for which a peer may use the connections reserved for known peers after it sent an app's API secret.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Maximum number of known peers.
const CAPACITY: u64 = 10_000;
/// TCP user timeout: time after which a connection is closed if the peer acknowledges no data, or keeps its receive window
/// closed.
pub const STALLED_FOR: Duration = Duration::from_secs(30);

/// Interval between two sweeps of idle connections.
const SWEEP: Duration = Duration::from_secs(1);

/// Open connections, each charged to the share of its peer.
#[derive(Clone)]
pub(crate) struct Connections {
    room: Room,
    watch: Watch,
    trusted: Vec<Network>,
    /// Peers that recently sent an app's API secret.
    known: Cache<Peer, ()>,
}

impl Connections {
    pub(crate) fn new(config: &Gateway) -> Connections {
        Connections {
            room: Room::new(config.connections.min(most_by_open_files()), FOR_PEERS),
            watch: Watch::default(),
            trusted: config.trusted_proxies.clone(),
            known: Cache::builder().max_capacity(CAPACITY).time_to_live(KNOWN_FOR).build(),
        }
    }

    /// Takes a place for a new connection until the connection is closed. Closes it immediately if the share of its peer is used
    /// up.
    pub(crate) fn admit(&self, stream: &TcpStream, connection: &mut Extensions) {
        let socket = SockRef::from(stream);
        // Without the timeout a stalled connection lasts longer, but still counts against its peer's share.
        drop(socket.set_tcp_user_timeout(Some(STALLED_FOR)));
        let Ok(address) = stream.peer_addr() else { return };
        let holder = self.holder(address.ip());
        match self.room.take(&holder, 1) {
            Ok(place) => {
                drop(connection.insert(place));
                let activity = self.watch.begin(stream, holder.proof() == Proof::Nothing);
                drop(activity.map(|activity| connection.insert::<Arc<_>>(activity)));
            }
            Err(_) => {
                ::metrics::counter!(service_kit::metrics::CONNECTIONS_REFUSED).increment(1);
                drop(socket.shutdown(std::net::Shutdown::Both));
            }
        }
    }

    fn holder(&self, address: std::net::IpAddr) -> Holder {
        let peer = Peer::of(address);
        if self.trusted.iter().any(|network| network.contains(address)) {
            Holder::proxy()
        } else if self.known.contains_key(&peer) {
            Holder::known_peer(peer)
        } else {
            Holder::stranger(peer)
        }
    }

    /// Remembers for 10 minutes that this peer sent an app's API secret.
    pub(crate) async fn remember(&self, peer: Peer) {
        if !self.known.contains_key(&peer) {
            self.known.insert(peer, ()).await;
        }
    }

    /// Closes idle connections until `served` is cancelled.
    pub(crate) async fn sweep_until(self, served: CancellationToken) -> anyhow::Result<()> {
        while served.run_until_cancelled(sleep(SWEEP)).await.is_some() {
            self.watch.sweep(self.are_scarce());
        }
        Ok(())
    }

    /// Returns true if connections are scarce, so that callers without the API secret should not keep theirs for another request.
    pub(crate) fn are_scarce(&self) -> bool {
        self.room.is_busy()
    }
}

/// Raises the process's limit of open files to its maximum, and returns the number of connections that fit: three eighths of the
/// limit, because a connection uses two file descriptors, and a quarter of the limit stays free for the database, the log and
/// files.
fn most_by_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // A lower soft limit protects programs that call select(2); this process does not call it.
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let most = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    most.and_then(|most| usize::try_from(most / 8 * 3).ok()).unwrap_or(usize::MAX)
}
