//! The state of the gateway process, which the handlers share.

use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::web::Data;
use credentials::link::Links;
use domain::web_push::PushHost;
use fairness::rate_limit::RateLimits;
use service_kit::{Context, Readiness};
use store::Store;
use store::sends::idempotency::Reservations;
use tokio_util::sync::CancellationToken;

use crate::deliveries::callbacks::Callbacks;
use crate::inbox::positions::Positions;
use crate::publisher::Publisher;
use crate::sends::category::KnownCategories;

pub(crate) struct Gateway {
    pub(crate) store: Store,
    pub(crate) publisher: Publisher,
    pub(crate) positions: Positions,
    pub(crate) categories: KnownCategories,
    pub(crate) reservations: Reservations,
    /// Counts the transactional sends of each app. Sends beyond the app's rate go to the bulk lane.
    pub(crate) transactional_rates: RateLimits,
    /// Transactional sends per second of an app without a configured rate.
    pub(crate) transactional_rate: NonZeroU32,
    /// Time for which the log keeps messages that all consumers have read.
    pub(crate) retention: Duration,
    pub(crate) callbacks: Callbacks,
    pub(crate) links: Links,
    pub(crate) push_hosts: Vec<PushHost>,
    /// URL of the API as clients reach it, if it is set.
    pub(crate) public_url: Option<String>,
    pub(crate) readiness: Readiness,
    pub(crate) partitions: u32,
}

impl Gateway {
    /// Builds the gateway and starts its background tasks, which run until `served` is cancelled. The caller cancels it after the
    /// last request.
    pub(crate) fn start(context: &Context, served: &CancellationToken) -> Data<Gateway> {
        let partitions = context.partitions;
        let (reservations, reserving) = context.store.sends().reservations();
        context.spawn("idempotency keys", async {
            reserving.await;
            Ok(())
        });
        let positions = Positions::new(partitions);
        context.spawn("inbox positions", positions.clone().follow_until(served.clone(), context.clone()));
        let config = &context.config.gateway;
        Data::new(Gateway {
            store: context.store.clone(),
            publisher: Publisher::start(context, served),
            positions,
            categories: KnownCategories::new(),
            reservations,
            transactional_rates: RateLimits::new(),
            transactional_rate: NonZeroU32::new(config.transactional_rate).unwrap_or(NonZeroU32::MIN),
            retention: context.config.streams.retention,
            callbacks: Callbacks::new(context),
            links: context.links.clone(),
            push_hosts: context.config.web_push.hosts.clone(),
            public_url: context.public_url().map(str::to_owned),
            readiness: context.readiness.clone(),
            partitions,
        })
    }
}
