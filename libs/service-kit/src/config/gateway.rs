//! `[gateway]`.

use std::net::SocketAddr;
use std::time::Duration;

use super::Network;
use crate::ServerUrl;

/// Settings of the gateway, which serves the v3 API.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Public origin of the API, without `/v3`. Links in emails contain it, and providers send callbacks to it.
    pub public_url: Option<ServerUrl>,
    /// Proxies that may name the peer in the headers `Forwarded` and `X-Forwarded-For`. Default: none.
    pub trusted_proxies: Vec<Network>,
    /// Maximum number of open connections of one process, 16 to 1,000,000. If the process may open fewer files, the maximum is
    /// lower.
    pub connections: usize,
    /// Requests per second that one process accepts from an app's backend, 1 to 1,000,000. A second limit of the same size
    /// applies to all users of the app together. An app's own limit takes precedence.
    pub rate_limit: u32,
    /// Requests per second that one process accepts from one user, 1 to 1,000,000.
    pub user_rate_limit: u32,
    /// Requests without credentials or with only a public key that one process accepts per second from one peer, 1 to 1,000,000.
    pub peer_rate_limit: u32,
    /// Requests with wrong credentials or unknown API keys that one process checks per second for one peer, 1 to 1,000,000.
    pub refusal_rate_limit: u32,
    /// Sends per second that one process accepts from an app into the transactional lane, 1 to 1,000,000. An app's own rate takes
    /// precedence.
    pub transactional_rate: u32,
    /// Maximum number of requests that wait for the database or the event log at the same time, per process, 1 to 100,000.
    pub waiting_room: usize,
    /// Time for which a stopping gateway reports that it is not ready but still accepts connections, at most 8 s.
    pub drain: Duration,
}
