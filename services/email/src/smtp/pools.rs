use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use worker::ProviderVersion;

use super::connection::Connection;
use super::limits::PoolLimits;
use super::pool::Pool;

/// Time after which connections are closed without QUIT.
const QUIT_LIMIT: Duration = Duration::from_secs(2);

/// Pools by provider. When a provider's settings change, it gets a new pool.
pub(crate) struct Pools {
    limits: PoolLimits,
    pools: Mutex<HashMap<ProviderVersion, Arc<Pool>>>,
}

impl Pools {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Pools { limits, pools: Mutex::default() }
    }

    pub(crate) fn get<E>(
        &self,
        provider: ProviderVersion,
        create: impl FnOnce(PoolLimits) -> Result<Pool, E>,
    ) -> Result<Arc<Pool>, E> {
        let mut pools = self.lock();
        if let Some(pool) = pools.get(&provider) {
            return Ok(pool.clone());
        }
        let pool = Arc::new(create(self.limits.clone())?);
        pools.insert(provider, pool.clone());
        Ok(pool)
    }

    pub(crate) async fn reap(&self) -> Infallible {
        let mut ticks = interval(self.limits.idle / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let quits = async {
                for connection in self.take_expired() {
                    connection.quit().await;
                }
            };
            if timeout(QUIT_LIMIT, quits).await.is_err() {
                tracing::debug!("closed idle connections without waiting for the answer to QUIT");
            }
        }
    }

    fn take_expired(&self) -> Vec<Connection> {
        let mut pools = self.lock();
        let expired = pools.values().flat_map(|pool| pool.take_expired()).collect();
        // While the map is locked, a count of one means that no task uses the pool.
        pools.retain(|_, pool| Arc::strong_count(pool) > 1 || !pool.is_empty());
        expired
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProviderVersion, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
