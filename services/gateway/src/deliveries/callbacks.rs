//! Reports of providers about accepted messages, each authenticated by a signature.

mod account;
mod signature;
pub(crate) mod twilio;

use std::time::Duration;

use credentials::MasterKey;
use domain::AppId;
use domain::retry::RetryPolicy;
use moka::future::Cache;
use secrecy::SecretString;
use service_kit::Context;

/// Time within which a change to a provider takes effect for its callbacks.
const REMEMBERED_FOR: Duration = Duration::from_secs(2);
/// Size of the cache of tokens; unknown providers count as well.
const CAPACITY: u64 = 10_000;

/// State of the callback handlers.
pub(crate) struct Callbacks {
    /// Public origin of the API, without a final slash; without it no signature can be checked.
    public_url: Option<String>,
    master_key: MasterKey,
    policy: RetryPolicy,
    /// Tokens that sign the callbacks of providers; None if a provider is unknown or has none.
    tokens: Cache<(AppId, String), Option<SecretString>>,
}

impl Callbacks {
    pub(crate) fn new(context: &Context) -> Callbacks {
        let public_url = context.config.gateway.public_url.as_ref();
        Callbacks {
            public_url: public_url.map(|url| url.expose().trim_end_matches('/').to_owned()),
            master_key: context.master_key.clone(),
            policy: RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() },
            tokens: Cache::builder().max_capacity(CAPACITY).time_to_live(REMEMBERED_FOR).build(),
        }
    }
}
