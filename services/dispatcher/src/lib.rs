//! The dispatcher: reads accepted sends from the log ([`intake`]), freezes a plan for each of their chunks ([`planner`]), and publishes the
//! messages that the plan requires ([`chunk_messages`]).

mod backpressure;
mod chunk_messages;
mod compiled_templates;
mod eraser;
mod expansion;
mod inbox_events;
mod intake;
mod janitor;
mod keeper;
mod marks;
mod observer;
mod old_snapshots;
mod plan_error;
mod planner;
mod receipts;
mod redrives;
mod timers;

pub use intake::DURABLE;

use domain::Lane;
use service_kit::{Context, plans};

use crate::backpressure::Backpressure;

/// Tables from which planning reads, and to which it adds.
const PLANNED: [&str; 3] = ["app_user", "request", "planned_recipient"];

/// Runs the dispatcher until the process stops. If the log refuses a consumer, the task that needs it stops the process.
pub async fn run(context: Context) -> anyhow::Result<()> {
    let backpressure = Backpressure::new(context.partitions);
    backpressure.refresh(&context.log).await;
    context.spawn("room in the log", backpressure.clone().follow(context.clone()));
    context.spawn("pinned plans", plans::pin_with_statistics(context.clone(), &PLANNED));
    for &lane in Lane::ALL {
        context.spawn("dispatcher intake", intake::run(context.clone(), backpressure.clone(), lane));
    }
    context.spawn("timers", timers::run(context.clone(), backpressure.clone()));
    context.spawn("janitor", janitor::run(context.clone()));
    context.spawn("keeper of sends", keeper::run(context.clone()));
    context.spawn("janitor of crowded streams", janitor::make_room(context.clone(), backpressure));
    context.spawn("marks", marks::run(context.clone()));
    context.spawn("eraser", eraser::run(context.clone()));
    context.spawn("receipts", receipts::run(context.clone()));
    context.spawn("redrives", redrives::run(context.clone()));
    context.spawn("observer", observer::run(context.clone()));
    context.tasks.stopping().await;
    Ok(())
}
