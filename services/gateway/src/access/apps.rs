//! Lookup of apps by API key, with short-lived caches.

use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use fairness::peer::Peer;
use fairness::principal::Principal;
use fairness::quota::{FOR_STRANGERS, Quota};
use fairness::waiting::STEP;
use moka::future::Cache;
use service_kit::Context;
use store::Store;
use tokio::time::timeout;
use web::database::{DATABASE_OVERDUE, database};
use web::failure::{Failure, crowded};
use web::limits::Limits;

use crate::access::known_app::KnownApp;

/// Time for which an app is cached. A change to an app or its secrets takes effect within this time.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// Time for which an unknown key is cached. A key may stay unknown for this time after its app was created.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Time after its last use for which an app's key counts as seen. Look-ups of seen keys are exempt from the limits on look-ups.
const SEEN_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of cached apps; also the maximum number of seen keys.
const CAPACITY: u64 = 100_000;
/// Maximum number of cached unknown keys. Their cache is separate, so that unknown keys never evict an app.
const UNKNOWN_CAPACITY: u64 = 10_000;
/// Maximum number of concurrent look-ups of unknown keys.
pub const LOOK_UPS: usize = 64;
/// Number of look-ups that a request tries, if those of other requests were refused.
const TRIES: u32 = 3;
/// Maximum length of a key in bytes. A longer key is treated as unknown, without a look-up.
const LONGEST_KEY: usize = 256;

/// Cache of apps by API key. Concurrent requests for the same key share one look-up.
pub(crate) struct Apps {
    store: Store,
    master_key: MasterKey,
    known: Cache<String, Arc<KnownApp>>,
    /// Keys that named an app when they were last looked up.
    seen: Cache<String, ()>,
    unknown: Cache<String, ()>,
    look_ups: Quota,
}

enum LookupFailure {
    Unknown,
    /// The peer of the request that made the look-up has used up its share.
    Refused(Failure),
    Failed(Failure),
}

impl Apps {
    pub(crate) fn new(context: &Context) -> Apps {
        Apps {
            store: context.store.clone(),
            master_key: context.master_key.clone(),
            known: Cache::builder().max_capacity(CAPACITY).time_to_live(KNOWN_FOR).build(),
            seen: Cache::builder().max_capacity(CAPACITY).time_to_idle(SEEN_FOR).build(),
            unknown: Cache::builder().max_capacity(UNKNOWN_CAPACITY).time_to_live(UNKNOWN_FOR).build(),
            look_ups: Quota::new(LOOK_UPS, FOR_STRANGERS),
        }
    }

    /// Returns the app with this key. The look-up of a seen key ([`SEEN_FOR`]) is not limited. The look-up of any other key
    /// counts against the limits of one of the peers that share it.
    pub(crate) async fn by_key(
        &self,
        key: &str,
        peer: Peer,
        limits: &Limits,
    ) -> Result<Option<Arc<KnownApp>>, Failure> {
        if let Some(app) = self.known.get(key).await {
            return Ok(Some(app));
        }
        if key.len() > LONGEST_KEY || self.unknown.contains_key(key) {
            return Ok(None);
        }
        let mut refusal = None;
        for _ in 0..TRIES {
            let mut is_own = false;
            let load = async {
                is_own = true;
                self.load(key, peer, limits).await
            };
            let none = match self.known.try_get_with_by_ref(key, load).await {
                Ok(app) => return Ok(Some(app)),
                Err(none) => none,
            };
            match &*none {
                LookupFailure::Unknown => return Ok(None),
                // Another peer's request made the look-up, and that peer has used up its share.
                LookupFailure::Refused(failure) if !is_own => refusal = Some(failure.clone()),
                LookupFailure::Refused(failure) | LookupFailure::Failed(failure) => {
                    return Err(failure.clone());
                }
            }
        }
        Err(refusal.unwrap_or_else(crowded))
    }

    async fn load(&self, key: &str, peer: Peer, limits: &Limits) -> Result<Arc<KnownApp>, LookupFailure> {
        let is_seen = self.seen.get(key).await.is_some();
        let _look_up = if is_seen {
            None
        } else {
            limits.count_look_up(peer).await.map_err(LookupFailure::Refused)?;
            let place = self.look_ups.take(&Principal::stranger(peer), 1);
            Some(place.map_err(|overuse| LookupFailure::Refused(overuse.into()))?)
        };
        let look_up = self.store.control().app_by_key(key);
        // Several requests may share this look-up. If the key is seen, the look-up must not fail because one of these requests
        // has used up its waiting time or its caller's share of the waiting room, so it bypasses `database`.
        let app = if is_seen {
            match timeout(STEP, look_up).await {
                Ok(app) => app.map_err(Failure::from),
                Err(_) => Err(Failure::unavailable(DATABASE_OVERDUE, "no answer in time")),
            }
        } else {
            database(look_up).await
        };
        match app.map_err(LookupFailure::Failed)? {
            Some(app) => {
                self.seen.insert(key.to_owned(), ()).await;
                Ok(Arc::new(KnownApp::open(app, &self.master_key)))
            }
            None => {
                self.seen.invalidate(key).await;
                self.unknown.insert(key.to_owned(), ()).await;
                Err(LookupFailure::Unknown)
            }
        }
    }
}
