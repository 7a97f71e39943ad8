//! The state of the gateway process, which the handlers share.

use std::sync::Arc;

use actix_web::web::Data;
use credentials::link::Links;
use domain::web_push::PushHost;
use operations::{MasterKeySource, Operations, Publisher, Sends};
use service_kit::{Context, Readiness};
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::deliveries::callbacks::Callbacks;
use crate::inbox::positions::Positions;

pub(crate) struct Gateway {
    pub(crate) operations: Operations,
    pub(crate) sends: Sends,
    pub(crate) store: Store,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) positions: Positions,
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
        let partitions = context.partitions;
        let positions = Positions::new(partitions);
        context.spawn("inbox positions", positions.clone().follow_until(served.clone(), context.clone()));
        let publisher = Arc::new(Publisher::start(context, served));
        let master_key = MasterKeySource::Loaded(context.master_key.clone());
        Data::new(Gateway {
            operations: Operations::new(context.store.clone(), master_key),
            sends: Sends::start(context, Arc::clone(&publisher)),
            store: context.store.clone(),
            publisher,
            positions,
            callbacks: Callbacks::new(context),
            links: context.links.clone(),
            push_hosts: context.config.web_push.hosts.clone(),
            readiness: context.readiness.clone(),
            partitions,
        })
    }
}
