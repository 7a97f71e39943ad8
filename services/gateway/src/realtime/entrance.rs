//! Limits on opening live connections.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::AppId;
use fairness::principal::Principal;
use fairness::quota::{Lease, Parts, Quota};
use tokio::time::{Duration, Instant};

use crate::realtime::connection::Client;

/// Maximum number of connections that are opened per second. One app gets half of them, if no other app opens any.
pub const OPENED_PER_SECOND: usize = 1_000;
/// Divisors that reserve half of the connections for users with a token or a signature.
const PARTS: Parts = Parts { token: 1, public_key: 2, nothing: usize::MAX };

/// Counts the connections of a gateway, and those that were opened within the last second.
#[derive(Debug)]
pub(crate) struct Entrance {
    open: Quota,
    opened: Quota,
    /// The places in `opened`, oldest first.
    latest: Mutex<VecDeque<(Instant, Lease)>>,
    by_app: Arc<Mutex<HashMap<AppId, usize>>>,
}

/// The place of an open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    _place: Lease,
    app: AppId,
    by_app: Arc<Mutex<HashMap<AppId, usize>>>,
}

impl Entrance {
    /// Creates an entrance for at most `connections` connections.
    pub(crate) fn new(connections: usize) -> Entrance {
        Entrance {
            open: Quota::new(connections, PARTS),
            opened: Quota::new(OPENED_PER_SECOND, PARTS),
            latest: Mutex::default(),
            by_app: Arc::default(),
        }
    }

    /// Admits a connection. None if the caller's share is used up, if the app has its maximum of connections at this gateway, or if too
    /// many connections are being opened.
    pub(crate) fn admit(&self, client: &Client, principal: &Principal) -> Option<Admission> {
        let place = self.open.take(principal, 1).ok()?;
        {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            while latest.front().is_some_and(|(at, _)| now.duration_since(*at) >= Duration::from_secs(1)) {
                latest.pop_front();
            }
            latest.push_back((now, self.opened.take(principal, 1).ok()?));
        }
        let mut by_app = counts(&self.by_app);
        let count = by_app.entry(client.app).or_default();
        if client.most_of_app.is_some_and(|most| *count >= most) {
            return None;
        }
        *count += 1;
        drop(by_app);
        Some(Admission { _place: place, app: client.app, by_app: Arc::clone(&self.by_app) })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut by_app = counts(&self.by_app);
        if let Some(count) = by_app.get_mut(&self.app) {
            *count -= 1;
            if *count == 0 {
                by_app.remove(&self.app);
            }
        }
    }
}

fn counts(by_app: &Mutex<HashMap<AppId, usize>>) -> MutexGuard<'_, HashMap<AppId, usize>> {
    by_app.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::access::known_app::Evidence;
    use crate::realtime::connection::Transport;
    use fairness::peer::Peer;

    fn client(app: i64, most_of_app: Option<usize>) -> (Client, Principal) {
        let client = Client {
            app: AppId(app),
            api_key: app.to_string(),
            peer: Peer::of(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            evidence: Evidence::PublicKey,
            expires_at: None,
            transport: Transport::EventStream,
            most_of_app,
        };
        (client, Principal::backend(AppId(app)))
    }

    fn admitted(entrance: &Entrance, (client, principal): &(Client, Principal)) -> Vec<Admission> {
        std::iter::from_fn(|| entrance.admit(client, principal)).take(2_000).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_opens_half_of_the_connections_of_a_second_and_the_other_apps_find_room() {
        let entrance = Entrance::new(1_000_000);
        let (shop, bank) = (client(1, None), client(2, None));
        assert_eq!(admitted(&entrance, &shop).len(), 500);
        assert_eq!(admitted(&entrance, &bank).len(), 250, "connections that have closed since count too");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(admitted(&entrance, &shop).len(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_has_no_more_connections_than_its_maximum() {
        let entrance = Entrance::new(1_000_000);
        let limited = client(1, Some(3));
        let mut open = admitted(&entrance, &limited);
        assert_eq!(open.len(), 3);
        assert_eq!(admitted(&entrance, &client(2, Some(4))).len(), 4, "apps are counted apart");
        open.pop();
        assert_eq!(admitted(&entrance, &limited).len(), 1);
    }
}
