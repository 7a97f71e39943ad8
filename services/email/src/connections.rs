use reqwest::Client;
use worker::exchange::Caller;
use worker::{ChannelResources, Outbound};

use crate::letter::Enclosures;
use crate::smtp::limits::PoolLimits;
use crate::smtp::pools::Pools;

pub struct Connections {
    pub(crate) pools: Pools,
    pub(crate) client: Client,
    pub(crate) outbound: Outbound,
    pub(crate) caller: Caller,
}

impl Connections {
    /// The limits apply to each provider separately.
    pub(crate) fn new(limits: PoolLimits, outbound: Outbound) -> reqwest::Result<Connections> {
        let client = outbound.client().build()?;
        let caller = Caller::new(client.clone(), outbound, limits.api);
        Ok(Connections { pools: Pools::new(limits), client, outbound, caller })
    }
}

impl ChannelResources for Connections {
    type Input<'a> = Enclosures;
}
