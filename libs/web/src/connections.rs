//! Limits on open connections. Each peer may open only a share of them.

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

use crate::idle::Watch;
use crate::inlet::Inlet;
use fairness::peer::Peer;
use fairness::principal::{Principal, Proof};
use fairness::quota::{FOR_PEERS, FOR_STRANGERS, Quota};

/// Time for which a peer counts as known after it sent an app's API secret. Half of the connections are reserved for known
/// peers.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Maximum number of known peers.
const CAPACITY: u64 = 10_000;
/// TCP user timeout. A connection is closed if the peer acknowledges no data, or keeps its receive window closed, for this
/// time.
pub const STALLED_FOR: Duration = Duration::from_secs(30);

/// Interval between two sweeps of idle connections.
const SWEEP: Duration = Duration::from_secs(1);

/// Open connections. Each is charged to its peer.
#[derive(Clone)]
pub struct Connections {
    room: Quota,
    watch: Watch,
    trusted: Vec<Network>,
    /// Peers that recently sent an app's API secret.
    known: Cache<Peer, ()>,
}

impl Connections {
    pub fn new(config: &Gateway) -> Connections {
        Connections {
            room: Quota::new(config.connections.min(most_by_open_files()), FOR_PEERS),
            watch: Watch::default(),
            trusted: config.trusted_proxies.clone(),
            known: Cache::builder().max_capacity(CAPACITY).time_to_live(KNOWN_FOR).build(),
        }
    }

    /// Counts a new connection against the share of its peer until the connection is closed. If the share is used up, closes
    /// the connection immediately.
    pub fn admit(&self, inlet: &Inlet, connection: &mut Extensions) {
        let stream = inlet.stream();
        drop(connection.insert(inlet.reading()));
        let socket = SockRef::from(stream);
        // If the timeout cannot be set, a stalled connection lasts longer, but still counts against the share of its peer.
        drop(socket.set_tcp_user_timeout(Some(STALLED_FOR)));
        let Ok(address) = stream.peer_addr() else { return };
        let principal = self.principal(address.ip());
        match self.room.take(&principal, 1) {
            Ok(place) => {
                drop(connection.insert(place));
                let activity = self.watch.begin(stream, principal.proof() == Proof::Nothing);
                drop(activity.map(|activity| connection.insert::<Arc<_>>(activity)));
            }
            Err(_) => {
                ::metrics::counter!(service_kit::metrics::CONNECTIONS_REFUSED).increment(1);
                drop(socket.shutdown(std::net::Shutdown::Both));
            }
        }
    }

    fn principal(&self, address: std::net::IpAddr) -> Principal {
        let peer = Peer::of(address);
        if self.trusted.iter().any(|network| network.contains(address)) {
            Principal::proxy()
        } else if self.known.contains_key(&peer) {
            Principal::known_peer(peer)
        } else {
            Principal::stranger(peer)
        }
    }

    /// Remembers for 10 minutes that this peer sent an app's API secret.
    pub async fn remember(&self, peer: Peer) {
        if !self.known.contains_key(&peer) {
            self.known.insert(peer, ()).await;
        }
    }

    /// Closes idle connections until `served` is cancelled.
    pub async fn sweep_until(self, served: CancellationToken) -> anyhow::Result<()> {
        while served.run_until_cancelled(sleep(SWEEP)).await.is_some() {
            self.watch.sweep(self.are_scarce());
        }
        Ok(())
    }

    /// Returns true if connections are scarce. Callers without the API secret should then not keep their connections for
    /// another request.
    pub fn are_scarce(&self) -> bool {
        self.room.is_busy()
    }
}

/// Connections of a server that knows no callers with a secret. Each peer may open only a share of them.
#[derive(Clone)]
pub struct SharedByPeers {
    room: Quota,
    trusted: Vec<Network>,
}

impl SharedByPeers {
    /// `trusted` are proxies, which open connections for all peers.
    #[must_use]
    pub fn new(most: usize, trusted: &[Network]) -> SharedByPeers {
        SharedByPeers { room: Quota::new(most, FOR_STRANGERS), trusted: trusted.to_vec() }
    }

    /// Counts a connection against the share of its peer until it is closed. If the share is used up, closes it immediately.
    pub fn admit(&self, stream: &TcpStream, connection: &mut Extensions) {
        let socket = SockRef::from(stream);
        // If the timeout cannot be set, a stalled connection lasts longer, but still counts against the share of its peer.
        drop(socket.set_tcp_user_timeout(Some(STALLED_FOR)));
        let Ok(address) = stream.peer_addr() else { return };
        let is_proxy = self.trusted.iter().any(|network| network.contains(address.ip()));
        let principal =
            if is_proxy { Principal::proxy() } else { Principal::stranger(Peer::of(address.ip())) };
        match self.room.take(&principal, 1) {
            Ok(place) => drop(connection.insert(place)),
            Err(_) => drop(socket.shutdown(std::net::Shutdown::Both)),
        }
    }
}

/// Raises the process's limit of open files to its maximum. Returns the number of connections that fit, which is three eighths
/// of the limit: a connection uses two file descriptors, and a quarter of the limit stays free for the database, the log and
/// files.
fn most_by_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Soft limits are low only to protect programs that call select(2). This process does not call it.
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let most = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    most.and_then(|most| usize::try_from(most / 8 * 3).ok()).unwrap_or(usize::MAX)
}
