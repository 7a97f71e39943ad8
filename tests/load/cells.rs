//! Two installations beside each other, each on one core: recipients planned per second together, compared with one of them alone.

use std::process::Command;

use serde::Serialize;

use crate::installation::Installation;
use crate::plan::{self, Audience};
use crate::role::Role;
use crate::series::Series;

const CELLS: usize = 2;

/// Results by round.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CellsReport {
    /// Recipients per second of the first installation while the other one is idle.
    pub(crate) alone: Series,
    /// Recipients per second of both.
    pub(crate) together: Series,
}

/// Measures sends to one recipient, `recipients` of them for each installation. All processes of an installation share its core.
pub(crate) async fn measure(rounds: u32, recipients: u32) -> CellsReport {
    let mut cells = Vec::with_capacity(CELLS);
    for core in 0..CELLS {
        let pinned = Pinned::to(core);
        let cell = Installation::start(0).await;
        drop(pinned);
        plan::prepare(&cell, recipients).await;
        cells.push(cell);
    }
    let mut report = CellsReport::default();
    for round in 1..=rounds {
        eprintln!("cells: round {round} of {rounds}");
        report.alone.push(planned_by(&cells[..1], recipients).await);
        report.together.push(planned_by(&cells, recipients).await);
    }
    report
}

/// Returns the recipients per second of all cells.
async fn planned_by(cells: &[Installation], recipients: u32) -> f64 {
    for cell in cells {
        plan::clear(cell).await;
        plan::publish(cell, Audience::Named(1), recipients).await;
        cell.settle().await;
    }
    let mut services = Vec::new();
    for (core, cell) in cells.iter().enumerate() {
        let pinned = Pinned::to(core);
        services.extend([Role::Inbox, Role::Dispatcher].map(|role| cell.serve(role, &[])));
        drop(pinned);
    }
    let planned = cells.iter().map(|cell| plan::planned(cell, recipients, || ()));
    futures_util::future::join_all(planned).await.iter().map(|planned| planned.per_second).sum()
}

/// While this exists, the processes that are started run on one core only.
struct Pinned;

impl Pinned {
    fn to(core: usize) -> Pinned {
        set_affinity(&core.to_string());
        Pinned
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        set_affinity(&format!("0-{}", CELLS - 1));
    }
}

/// Sets the cores of all threads of this process. The processes that they start inherit them.
fn set_affinity(cores: &str) {
    let id = std::process::id().to_string();
    let set = Command::new("taskset").args(["-acp", cores, &id]).output().expect("taskset is installed");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
}
