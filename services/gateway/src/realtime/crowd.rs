//! The limit on the live connections of one user. A connection without a proof never ends one with a proof, so that strangers who know
//! the public key cannot disconnect a user.

use std::sync::Arc;

use crate::access::known_app::Evidence;
use crate::realtime::connection::Connection;
use crate::realtime::update::ByeReason;

/// Maximum number of connections of one user.
pub const PER_USER: usize = 20;

/// Makes room for a new connection among the connections of its user, which are sorted by age. If they are too many, ends the oldest
/// that the newcomer may replace. Returns false, and ends the newcomer, if there is none.
pub(super) fn make_room(connections: &mut Vec<Arc<Connection>>, newcomer: &Connection) -> bool {
    connections.retain(|connection| !connection.is_over());
    if connections.len() < PER_USER {
        return true;
    }
    let Some(place) = replaced(connections, newcomer) else {
        newcomer.end(ByeReason::Replaced, 0);
        return false;
    };
    connections.remove(place).end(ByeReason::Replaced, 0);
    true
}

/// Returns the place of the oldest unproven connection of the newcomer's peer, else of the oldest unproven connection, else, for a
/// newcomer with a proof, of the oldest one.
fn replaced(connections: &[Arc<Connection>], newcomer: &Connection) -> Option<usize> {
    let is_unproven = |connection: &Connection| connection.client.evidence == Evidence::PublicKey;
    let of_peer = |connection: &&Arc<Connection>| connection.client.peer == newcomer.client.peer;
    let unproven = || connections.iter().enumerate().filter(|(_, connection)| is_unproven(connection));
    let of_same_peer = unproven().find(|(_, connection)| of_peer(connection));
    let oldest = of_same_peer.or_else(|| unproven().next()).map(|(place, _)| place);
    oldest.or_else(|| (!is_unproven(newcomer)).then_some(0))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use domain::AppId;

    use super::*;
    use crate::realtime::connection::{Client, Transport};
    use crate::realtime::entrance::Entrance;
    use fairness::peer::Peer;
    use fairness::principal::Principal;

    fn connection(evidence: &Evidence, peer: u8) -> Arc<Connection> {
        let app = AppId(1);
        let client = Client {
            app,
            api_key: "shop".to_owned(),
            peer: Peer::of(IpAddr::V4(Ipv4Addr::new(192, 0, 2, peer))),
            evidence: evidence.clone(),
            expires_at: None,
            transport: Transport::EventStream,
            most_of_app: None,
        };
        let admission = Entrance::new(100).admit(&client, &Principal::backend(app)).unwrap();
        Arc::new(Connection::new(client, admission, Arc::default(), None))
    }

    fn open(connections: &mut Vec<Arc<Connection>>, evidence: &Evidence, peer: u8) -> Arc<Connection> {
        let newcomer = connection(evidence, peer);
        if make_room(connections, &newcomer) {
            connections.push(Arc::clone(&newcomer));
        }
        newcomer
    }

    #[tokio::test(start_paused = true)]
    async fn an_unproven_connection_never_ends_a_proven_one() {
        let (token, unproven) = (Evidence::Token("k".to_owned()), Evidence::PublicKey);
        let mut connections = Vec::new();
        let own: Vec<_> = (0..3).map(|_| open(&mut connections, &token, 1)).collect();
        let other = open(&mut connections, &unproven, 2);
        let strangers: Vec<_> = (0..100).map(|_| open(&mut connections, &unproven, 3)).collect();
        assert!(own.iter().all(|connection| !connection.is_over()));
        assert!(!other.is_over(), "a peer replaces its own connections first");
        let open_now = strangers.iter().filter(|connection| !connection.is_over()).count();
        assert_eq!((open_now, connections.len()), (PER_USER - 4, PER_USER));
        assert!(!strangers.last().unwrap().is_over(), "the newest stay");

        let more: Vec<_> = (0..PER_USER).map(|_| open(&mut connections, &token, 1)).collect();
        assert!(strangers.iter().all(|connection| connection.is_over()), "the user's own replace them");
        assert!(own.iter().all(|connection| connection.is_over()) && other.is_over(), "then the oldest");
        assert!(open(&mut connections, &unproven, 3).is_over(), "there is none to replace");
        assert!(more.iter().all(|connection| !connection.is_over()));
        more[7].end(ByeReason::Expired, 0);
        assert!(!open(&mut connections, &unproven, 3).is_over());
    }
}
