//! The ledger of deliveries, and the operations that change it: claims, settlements, receipts, timers, parked jobs,
//! cancellation and suppression.

pub mod attachment;
pub mod cancellation;
pub mod ledger;
pub mod parked;
pub mod receipt;
pub mod redrive;
mod renewal;
pub mod settlement;
pub mod suppression;
pub mod timer;
