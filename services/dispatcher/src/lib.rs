//! The dispatcher: reads accepted sends from the log, stores (freezes) a plan for each of their chunks, and publishes the
//! messages that the plan requires.
//!
//! A batch takes one path: [`intake`] fetches messages and reads them into chunks, [`planner`] freezes the plans of the chunks
//! in one transaction, and [`orders`] writes the messages of the plans. [`timers`] publishes due timers. [`room`] pauses lanes
//! while streams are nearly full. [`janitor`] removes messages that every reader has read. [`eraser`] deletes the remaining
//! data of erased users. [`receipts`] records receipts that arrived before the provider's answer was settled. [`marks`] records
//! how far the log has been processed. [`observer`] measures lag.

mod eraser;
mod inbox_events;
mod intake;
mod janitor;
mod marks;
mod observer;
mod orders;
mod planner;
mod receipts;
mod room;
mod timers;

pub use intake::DURABLE;

use domain::Lane;
use service_kit::Context;

use crate::room::Room;

/// Runs the dispatcher until the process stops.
///
/// # Errors
/// This function returns no error. If the log refuses a consumer, the task that needs it stops the process.
pub async fn run(context: Context) -> anyhow::Result<()> {
    let room = Room::new(context.partitions);
    room.refresh(&context.log).await;
    context.spawn("room in the log", room.clone().follow(context.clone()));
    for &lane in Lane::ALL {
        context.spawn("dispatcher intake", intake::run(context.clone(), room.clone(), lane));
    }
    context.spawn("timers", timers::run(context.clone(), room.clone()));
    context.spawn("janitor", janitor::run(context.clone()));
    context.spawn("janitor of crowded streams", janitor::make_room(context.clone(), room));
    context.spawn("marks", marks::run(context.clone()));
    context.spawn("eraser", eraser::run(context.clone()));
    context.spawn("receipts", receipts::run(context.clone()));
    context.spawn("observer", observer::run(context.clone()));
    context.tasks.stopping().await;
    Ok(())
}
