//! Which app an API key names, remembered for a moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use service_kit::{Context, MasterKey};
use store::Store;

use crate::access::known_app::KnownApp;
use crate::gateway::database;
use crate::http::failure::Failure;

/// How long a change to an app or its secrets may take to be noticed.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long a key stays unknown after its app was created.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Keys remembered, known and unknown.
const CAPACITY: u64 = 10_000;
/// Longer ones are unknown without asking.
const LONGEST_KEY: usize = 256;

/// The apps by API key. Callers that ask for the same key at the same time share one look-up.
pub(crate) struct Apps {
    store: Store,
    master_key: MasterKey,
    cache: Cache<String, Option<Arc<KnownApp>>>,
}

struct Memory;

impl Expiry<String, Option<Arc<KnownApp>>> for Memory {
    fn expire_after_create(&self, _: &String, app: &Option<Arc<KnownApp>>, _: Instant) -> Option<Duration> {
        Some(if app.is_some() { KNOWN_FOR } else { UNKNOWN_FOR })
    }
}

impl Apps {
    /// Remembers nothing yet.
    pub(crate) fn new(context: &Context) -> Apps {
        let cache = Cache::builder().max_capacity(CAPACITY).expire_after(Memory).build();
        Apps { store: context.store.clone(), master_key: context.master_key.clone(), cache }
    }

    /// The app with this key.
    pub(crate) async fn by_key(&self, key: &str) -> Result<Option<Arc<KnownApp>>, Failure> {
        if key.len() > LONGEST_KEY {
            return Ok(None);
        }
        let load = async {
            let app = database(self.store.app_by_key(key)).await?;
            Ok(app.map(|app| Arc::new(KnownApp::open(app, &self.master_key))))
        };
        let found = self.cache.try_get_with_by_ref(key, load).await;
        found.map_err(|failure: Arc<Failure>| Failure::clone(&failure))
    }
}
