//! Sends: from the request to what became of it.

pub mod accept;
mod category;
mod checks;
pub mod dry_run;
mod missing_data;
mod provider_checks;
mod push_sizes;
pub mod recent;
pub mod status;
pub mod submission;
pub mod try_out;
pub(crate) mod volume;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use credentials::link::Links;
use fairness::rate_limit::RateLimits;
use service_kit::Context;
use store::Store;
use store::sends::idempotency::Reservations;

use crate::publisher::Publisher;
use crate::sends::category::KnownCategories;
use crate::sends::missing_data::KnownNeeds;

/// Use cases of sends, and what they share.
pub struct Sends {
    store: Store,
    publisher: Arc<Publisher>,
    categories: KnownCategories,
    needs: KnownNeeds,
    reservations: Reservations,
    /// Counts the transactional sends of each app. Sends beyond the app's rate go to the bulk lane.
    transactional_rates: RateLimits,
    /// Transactional sends per second of an app without a configured rate.
    transactional_rate: NonZeroU32,
    /// Time for which the log keeps messages that all consumers have read.
    retention: Duration,
    links: Links,
    /// URL of the API as clients reach it, if it is set.
    public_url: Option<String>,
}

impl Sends {
    /// Starts the task that reserves idempotency keys.
    #[must_use]
    pub fn start(context: &Context, publisher: Arc<Publisher>) -> Sends {
        let (reservations, reserving) = context.store.sends().reservations();
        context.spawn("idempotency keys", async {
            reserving.await;
            Ok(())
        });
        let rate = context.config.gateway.transactional_rate;
        Sends {
            store: context.store.clone(),
            publisher,
            categories: KnownCategories::new(),
            needs: KnownNeeds::new(),
            reservations,
            transactional_rates: RateLimits::default(),
            transactional_rate: NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN),
            retention: context.config.streams.retention,
            links: context.links.clone(),
            public_url: context.public_url().map(str::to_owned),
        }
    }
}
