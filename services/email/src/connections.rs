//! Connections that all kinds of email providers share.

use reqwest::Client;
use worker::exchange::Caller;
use worker::{ChannelResources, Outbound};

use crate::letter::Enclosures;
use crate::smtp::limits::PoolLimits;
use crate::smtp::pools::Pools;

/// Connections to mail servers and HTTP APIs, with their limits.
pub struct Connections {
    pub(crate) pools: Pools,
    pub(crate) client: Client,
    pub(crate) outbound: Outbound,
    /// Calls HTTP APIs, such as Postmark's.
    pub(crate) caller: Caller,
}

impl Connections {
    /// Creates connections. The limits apply to each provider separately.
    pub(crate) fn new(limits: PoolLimits, outbound: Outbound) -> reqwest::Result<Connections> {
        let client = outbound.client().build()?;
        let caller = Caller::new(client.clone(), outbound, limits.api);
        Ok(Connections { pools: Pools::new(limits), client, outbound, caller })
    }
}

impl ChannelResources for Connections {
    type Input<'a> = Enclosures;
}
