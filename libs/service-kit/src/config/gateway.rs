//! `[gateway]`.

use std::net::SocketAddr;
use std::time::Duration;

use super::Network;
use crate::ServerUrl;

/// The v3 API.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Public origin of the API, for links in emails and callbacks of providers, without `/v3`.
    pub public_url: Option<ServerUrl>,
    /// Proxies whose `Forwarded` and `X-Forwarded-For` headers are trusted to name the peer. Default: none.
    pub trusted_proxies: Vec<Network>,
    /// Connections of one process, 16 to 1,000,000; fewer if the process may not open as many files.
    pub connections: usize,
    /// Requests per second that one process accepts from the backend of an app without its own limit, and as many from all of
    /// its users together, 1 to 1,000,000.
    pub rate_limit: u32,
    /// Requests per second that one process accepts from one user, 1 to 1,000,000.
    pub user_rate_limit: u32,
    /// Requests per second that one process accepts from one peer with only a public key or without credentials, 1 to 1,000,000.
    pub peer_rate_limit: u32,
    /// Requests with wrong credentials or unknown API keys that one process checks per second for one peer, 1 to 1,000,000.
    pub refusal_rate_limit: u32,
    /// Sends per second that one process accepts into the transactional lane for an app without its own rate, 1 to 1,000,000.
    pub transactional_rate: u32,
    /// Maximum number of requests of one process that wait for the database or the log at the same time, 1 to 100,000.
    pub waiting_room: usize,
    /// Time for which a stopping gateway still accepts connections while it reports that it is not ready, at most 8 s.
    pub drain: Duration,
}
