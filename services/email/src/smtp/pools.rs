//! The pools of all providers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::AppId;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::connection::Connection;
use super::pool::{Pool, PoolLimits};

/// How long closing idle connections in order may take; then they are closed without a word.
const QUIT_LIMIT: Duration = Duration::from_secs(2);

/// A version of a provider: changed settings are another one, and get connections of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProviderVersion {
    /// The app that it belongs to.
    pub(crate) app: AppId,
    /// Its identifier, unique in the app.
    pub(crate) identifier: String,
    /// Grows with every change.
    pub(crate) version: i64,
}

/// One pool for each provider version in use.
pub(crate) struct Pools {
    limits: PoolLimits,
    pools: Mutex<HashMap<ProviderVersion, Arc<Pool>>>,
}

impl Pools {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Pools { limits, pools: Mutex::default() }
    }

    /// The pool of a provider version, made by `create` where there is none.
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

    /// Closes connections and forgets pools that nobody uses, for as long as it is polled.
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
                tracing::debug!("idle connections were closed without an answer to QUIT");
            }
        }
    }

    fn take_expired(&self) -> Vec<Connection> {
        let mut pools = self.lock();
        let expired = pools.values().flat_map(|pool| pool.take_expired()).collect();
        // Under the lock, a count of one says that no exchange has it.
        pools.retain(|_, pool| Arc::strong_count(pool) > 1 || !pool.is_empty());
        expired
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProviderVersion, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
