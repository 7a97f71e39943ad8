//! The dispatcher: takes accepted sends from the log, freezes what each of their turns does, and acts on it.
//!
//! A batch goes one way: [`intake`] fetches messages and reads them into turns, [`planner`] freezes the turns in one
//! transaction and has [`orders`] write the messages that act on them. [`timers`] publishes what has come due,
//! [`janitor`] removes from the log what everybody has read, [`eraser`] what rows still say of erased users, [`observer`]
//! measures how far behind anybody is.

mod eraser;
mod inbox_events;
mod intake;
mod janitor;
mod observer;
mod orders;
mod planner;
mod timers;

use domain::Lane;
use service_kit::Context;

/// Runs the dispatcher until the process stops.
///
/// # Errors
/// The log refuses the consumers that it needs.
pub async fn run(context: Context) -> anyhow::Result<()> {
    for &lane in Lane::ALL {
        context.spawn("dispatcher intake", intake::run(context.clone(), lane));
    }
    context.spawn("timers", timers::run(context.clone()));
    context.spawn("janitor", janitor::run(context.clone()));
    context.spawn("eraser", eraser::run(context.clone()));
    context.spawn("observer", observer::run(context.clone()));
    context.tasks.stopping().await;
    Ok(())
}
