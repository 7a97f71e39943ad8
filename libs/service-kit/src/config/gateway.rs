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
    /// Proxies whose `Forwarded` and `X-Forwarded-For` headers are trusted to name the client's address. Default: none.
    pub trusted_proxies: Vec<Network>,
    /// Maximum number of open connections of one process, 16 to 1,000,000. If the process may open fewer files, the maximum is
    /// lower.
    pub connections: usize,
    /// Requests per second that one process accepts from an app's backend, 1 to 1,000,000. The same limit applies separately to
    /// all users of the app together. An app's own limit takes precedence.
    pub rate_limit: u32,
    /// Requests per second that one process accepts from one user, 1 to 1,000,000.
    pub user_rate_limit: u32,
    /// Requests per second that one process accepts from one peer without credentials, or with only a public key; 1 to 1,000,000.
    pub peer_rate_limit: u32,
    /// Requests per second with wrong credentials or unknown API keys that one process checks for one peer, 1 to 1,000,000.
    pub refusal_rate_limit: u32,
    /// Longest time for which a user's bearer token may be valid: a later `exp` is refused.
    pub token_lifetime: Duration,
    /// Transactional sends per second that one process accepts from an app, 1 to 1,000,000. An app's own rate takes precedence.
    pub transactional_rate: u32,
    /// Maximum number of requests in one process that wait for the database or the event log at the same time, 1 to 100,000.
    pub waiting_room: usize,
    /// True if this process holds live connections (`/v3/stream` and `/socket.io/`).
    pub realtime: bool,
    /// Maximum number of live connections of one process, 1 to 1,000,000.
    pub realtime_connections: usize,
    /// Time for which a stopping gateway still accepts connections while it reports that it is not ready; at most 8 s.
    pub drain: Duration,
}
