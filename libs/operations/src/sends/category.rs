//! The quota of categories. If an app has reached its quota, a send that names a new category is refused.

use std::time::Duration;

use crate::OperationError;
use domain::AppId;
use moka::future::Cache;
use store::Store;
use store::control::quota::Quota;
use tokio::time::timeout;

/// Time for which a successful check is cached.
const KNOWN_FOR: Duration = Duration::from_secs(60);
const CAPACITY: u64 = 10_000;
/// Time limit of the check. If the check takes longer, the send is accepted: the dispatcher enforces the quota in any case.
const WITHIN: Duration = Duration::from_millis(250);

/// Cache of categories that passed the check, by app and identifier.
pub(crate) struct KnownCategories(Cache<(AppId, String), ()>);

impl KnownCategories {
    pub(crate) fn new() -> KnownCategories {
        KnownCategories(Cache::builder().max_capacity(CAPACITY).time_to_live(KNOWN_FOR).build())
    }

    /// Refuses a new category if the app has reached its quota. Accepts every category if the check fails or takes too long.
    pub(crate) async fn check(
        &self,
        store: &Store,
        app: AppId,
        identifier: &str,
    ) -> Result<(), OperationError> {
        let key = (app, identifier.to_owned());
        if self.0.contains_key(&key) {
            return Ok(());
        }
        let has_room = Box::pin(store.control().has_room_for_category(app, identifier));
        match timeout(WITHIN, has_room).await {
            Ok(Ok(true)) => {
                self.0.insert(key, ()).await;
                Ok(())
            }
            Ok(Ok(false)) => Err(OperationError::Quota(Quota::Categories)),
            Ok(Err(error)) => {
                tracing::warn!(%app, %error, "cannot check the quota of categories; accepting the send");
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }
}
