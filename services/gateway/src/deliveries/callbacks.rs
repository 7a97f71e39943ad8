//! Callbacks of providers: reports about messages that they accepted. A signature authenticates each callback.

mod account;
mod signature;
pub(crate) mod twilio;

use std::time::Duration;

use credentials::MasterKey;
use domain::AppId;
use domain::retry::RetryPolicy;
use domain::sms::keyword::AddedKeywords;
use moka::future::Cache;
use secrecy::SecretString;
use service_kit::Context;

/// Time for which a provider's token is cached. A change to the provider takes effect within this time.
const REMEMBERED_FOR: Duration = Duration::from_secs(2);
/// Maximum number of cached tokens. Unknown providers are cached too.
const CAPACITY: u64 = 10_000;

/// A provider that signs its callbacks.
#[derive(Clone)]
struct Signer {
    token: SecretString,
    keywords: AddedKeywords,
}

pub(crate) struct Callbacks {
    /// Public origin of the API, without a final slash. If it is None, no signature can be verified.
    public_url: Option<String>,
    master_key: MasterKey,
    policy: RetryPolicy,
    /// Tokens that sign the callbacks of providers. The value is None if the provider is unknown or has no token.
    tokens: Cache<(AppId, String), Option<Signer>>,
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
