//! The state of the gateway process, which the handlers share.

use std::sync::Arc;

use actix_web::web::Data;
use credentials::link::Links;
use domain::web_push::PushHost;
use operations::{Inboxes, MasterKeySource, Operations, Publisher, Sends};
use service_kit::{Context, Readiness};
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::deliveries::callbacks::Callbacks;

pub(crate) struct Gateway {
    pub(crate) operations: Operations,
    pub(crate) sends: Sends,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) store: Store,
    pub(crate) callbacks: Callbacks,
    pub(crate) links: Links,
    pub(crate) push_hosts: Vec<PushHost>,
    pub(crate) readiness: Readiness,
    pub(crate) partitions: u32,
}

impl Gateway {
    /// Builds the gateway and starts its background tasks, which run until `served` is cancelled. The caller cancels it after the
    /// last request.
    pub(crate) fn start(context: &Context, served: &CancellationToken) -> Data<Gateway> {
        let publisher = Arc::new(Publisher::start(context, served));
        let master_key = MasterKeySource::Loaded(context.master_key.clone());
        let allow_private = context.config.outbound.allow_private;
        Data::new(Gateway {
            operations: Operations::new(context.store.clone(), master_key, allow_private),
            sends: Sends::start(context, Arc::clone(&publisher)),
            inboxes: Arc::new(Inboxes::start(context, publisher, served)),
            store: context.store.clone(),
            callbacks: Callbacks::new(context),
            links: context.links.clone(),
            push_hosts: context.config.web_push.hosts.clone(),
            readiness: context.readiness.clone(),
            partitions: context.partitions,
        })
    }
}
