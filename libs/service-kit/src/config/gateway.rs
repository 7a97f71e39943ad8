use std::net::SocketAddr;
use std::time::Duration;

use super::Network;
use crate::ServerUrl;

#[derive(Clone, Debug)]
pub struct Gateway {
    pub listen: SocketAddr,
    pub public_url: Option<ServerUrl>,
    pub trusted_proxies: Vec<Network>,
    pub connections: usize,
    pub rate_limit: u32,
    pub user_rate_limit: u32,
    pub peer_rate_limit: u32,
    pub refusal_rate_limit: u32,
    pub token_lifetime: Duration,
    pub transactional_rate: u32,
    pub waiting_room: usize,
    pub realtime: bool,
    pub realtime_connections: usize,
    pub drain: Duration,
}
