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
    /// Where others reach the API, for links in emails and callbacks of providers: an origin, without `/v3`.
    pub public_url: Option<ServerUrl>,
    /// Proxies whose `Forwarded` and `X-Forwarded-For` name the peer. None by default.
    pub trusted_proxies: Vec<Network>,
    /// Connections of one process, 16 to 1,000,000; fewer if the process may not open as many files.
    pub connections: usize,
    /// Requests per second that one process accepts of the backend of an app without its own limit, and as many of all of
    /// its users, 1 to 1,000,000.
    pub rate_limit: u32,
    /// Requests per second that one process accepts of one user, 1 to 1,000,000.
    pub user_rate_limit: u32,
    /// Requests per second that one process accepts of one peer that proves nothing, 1 to 1,000,000.
    pub peer_rate_limit: u32,
    /// Requests per second with wrong credentials or unknown API keys that one process looks at for one peer, 1 to
    /// 1,000,000.
    pub refusal_rate_limit: u32,
    /// Sends a second that one process takes into the transactional lane of an app that has no rate of its own, 1 to
    /// 1,000,000.
    pub transactional_rate: u32,
    /// Requests of one process that wait for the database or the log at a time, 1 to 100,000.
    pub waiting_room: usize,
    /// How long a gateway that stops takes connections while it says that it is not ready, at most 8 s.
    pub drain: Duration,
}
