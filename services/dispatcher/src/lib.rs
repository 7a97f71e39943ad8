//! The dispatcher: takes accepted sends from the log, freezes what each of their chunks does, and acts on it.
//!
//! A batch goes one way: [`intake`] fetches messages and reads them into chunks, [`planner`] freezes the chunks in one
//! transaction and has [`orders`] write the messages that act on them. [`timers`] publishes what has come due,
//! [`room`] says which lanes wait for room in the log, [`janitor`] removes from the log what everybody has read, [`eraser`]
//! what rows still say of erased users, [`receipts`] records what came before the answer that it belongs to, [`marks`] how
//! far the log has been acted on, [`observer`] measures how far behind anybody is.

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
/// The log refuses the consumers that it needs.
pub async fn run(context: Context) -> anyhow::Result<()> {
    let room = Room::new(context.partitions);
    room.look(&context.log).await;
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
