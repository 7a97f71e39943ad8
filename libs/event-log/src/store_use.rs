use std::future::IntoFuture as _;
use std::sync::atomic::Ordering;

use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, StorageType};
use domain::StreamName;
use serde::Deserialize;

use crate::connection::EventLog;
use crate::error::Error;

/// Exists only while [`EventLog::storable`] runs.
const PROBE: &str = "TIDINGS_STORE_PROBE";
const LEAST: u64 = 16 << 20;
const MOST: u64 = 1 << 50;
/// The probe's result is at most this fraction of the real size too small.
const PRECISION: u64 = 128;

/// Use of the server's store by this account, counting one copy of each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    pub used: u64,
    /// None if neither the account has a limit nor the installation knows one.
    pub limit: Option<u64>,
}

impl StoreUse {
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
    pub fn fill(self) -> f64 {
        self.limit.map_or(0.0, |limit| self.used as f64 / limit as f64)
    }
}

#[derive(Deserialize)]
struct AccountInfo {
    #[serde(flatten)]
    whole: Tier,
    /// Limits by number of replicas (`R1`, `R3`). An account with tiers has no limits of its own.
    #[serde(default)]
    tiers: std::collections::HashMap<String, Tier>,
}

#[derive(Deserialize)]
struct Tier {
    #[serde(default)]
    storage: u64,
    #[serde(default)]
    limits: TierLimits,
}

#[derive(Deserialize, Default)]
struct TierLimits {
    /// Bytes; 0 or -1 means that there is no limit.
    #[serde(default)]
    max_storage: i64,
}

impl EventLog {
    /// Limits the bytes of all streams together, counting one copy of each; 0 means no limit. All clones use it.
    pub fn limit_store(&self, bytes: u64) {
        self.store_limit.store(bytes, Ordering::Relaxed);
    }

    /// Fails if there is no stream `OUTCOME`.
    pub async fn store_use(&self) -> Result<StoreUse, Error> {
        let copies = self.info(StreamName::Outcome).await?.config.num_replicas.max(1);
        let action = "describe the account";
        let info: AccountInfo = match self.with_timeout(action, self.context.request("INFO", &())).await? {
            Response::Ok(info) => info,
            Response::Err { error } => return Err(Error::unavailable(action, error)),
        };
        let own = Some(self.store_limit.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0);
        let limit = info.limit(copies).into_iter().chain(own).min();
        Ok(StoreUse { used: info.used(copies), limit })
    }

    /// Bytes that these streams may use; None if the server grants none. The server does not publish its limit, so this call lets it
    /// reserve storage for an empty stream, in several sizes, and deletes the stream each time. Only one process may do this at a time.
    pub async fn storable(&self, names: &[StreamName]) -> Result<Option<u64>, Error> {
        let mut reserved = 0;
        for &name in names {
            let limit = self.info(name).await?.config.max_bytes;
            reserved += u64::try_from(limit).unwrap_or(0);
        }
        // An interrupted call may have left the stream.
        self.delete_probe().await?;
        let (mut low, mut high) = (0, LEAST);
        while high < MOST && self.is_granted(high).await? {
            (low, high) = (high, high * 2);
        }
        while high - low > low / PRECISION && low > 0 {
            let middle = low + (high - low) / 2;
            if self.is_granted(middle).await? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Some(low + reserved).filter(|bytes| *bytes > 0))
    }

    async fn is_granted(&self, bytes: u64) -> Result<bool, Error> {
        let config = Config {
            name: PROBE.to_owned(),
            subjects: vec![PROBE.to_owned()],
            storage: StorageType::File,
            max_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            num_replicas: self.replicas,
            ..Config::default()
        };
        let answer = async {
            match self.context.create_stream(config).await {
                Ok(_) => Ok(true),
                // The server uses different codes for its own limit, that of the account, and that of a cluster.
                Err(error) if matches!(error.kind(), CreateStreamErrorKind::JetStream(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let granted = self.with_timeout(format!("reserve {bytes} bytes"), Box::pin(answer)).await?;
        if granted {
            self.delete_probe().await?;
        }
        Ok(granted)
    }

    async fn delete_probe(&self) -> Result<(), Error> {
        use async_nats::jetstream::context::GetStreamErrorKind::JetStream;
        let answer = async {
            match self.context.delete_stream(PROBE).await {
                // The stream does not exist.
                Err(error) if matches!(error.kind(), JetStream(_)) => Ok(()),
                answer => answer.map(drop),
            }
        };
        self.with_timeout(format!("delete {PROBE}"), answer.into_future()).await
    }
}

impl AccountInfo {
    fn used(&self, copies: usize) -> u64 {
        self.whole.storage / u64::try_from(copies).unwrap_or(1)
    }

    /// The limit of an account covers all copies, the limit of a tier one copy.
    fn limit(&self, copies: usize) -> Option<u64> {
        let positive = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
        let of_tier =
            self.tiers.get(&format!("R{copies}")).and_then(|tier| positive(tier.limits.max_storage));
        let of_account = positive(self.whole.limits.max_storage);
        of_tier.or_else(|| Some((of_account? / u64::try_from(copies).unwrap_or(1)).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_accounts_and_tiers_count_one_copy() {
        let read = |text: &str| serde_json::from_str::<AccountInfo>(text).unwrap();
        let unlimited = read(r#"{"storage": 300, "limits": {"max_storage": -1}}"#);
        assert_eq!((unlimited.used(3), unlimited.limit(3)), (100, None));
        let limited = read(r#"{"storage": 300, "limits": {"max_storage": 900}}"#);
        assert_eq!((limited.used(3), limited.limit(3)), (100, Some(300)));
        let tiered = read(
            r#"{"storage": 300, "limits": {}, "tiers": {"R3": {"storage": 300, "limits": {"max_storage": 900}}}}"#,
        );
        assert_eq!((tiered.limit(3), tiered.limit(1)), (Some(900), None));
        assert_eq!(StoreUse { used: 50, limit: None }.fill(), 0.0);
        assert_eq!(StoreUse { used: 50, limit: Some(200) }.fill(), 0.25);
    }
}
