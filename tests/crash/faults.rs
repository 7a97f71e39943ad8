//! When which part is killed: by how far the run has come, never by the clock.

use std::time::Duration;

use testkit::eventually;
use tokio::sync::watch;

use crate::system::{Part, System};

/// How far the run has come.
#[derive(Clone, Copy, Debug)]
enum Milestone {
    /// So many sends are confirmed.
    Confirmed(usize),
    /// So many emails are captured.
    Captured(usize),
}

/// In this order.
const SCHEDULE: [(Part, Milestone); 8] = [
    (Part::Gateway, Milestone::Confirmed(100)),
    (Part::Dispatcher, Milestone::Confirmed(250)),
    (Part::Inbox, Milestone::Confirmed(400)),
    (Part::Nats, Milestone::Confirmed(550)),
    (Part::Email, Milestone::Confirmed(700)),
    (Part::Dispatcher, Milestone::Confirmed(850)),
    (Part::Email, Milestone::Captured(4_000)),
    (Part::Nats, Milestone::Captured(7_000)),
];
const REACHED_WITHIN: Duration = Duration::from_secs(90);

/// Strikes at every milestone, and returns what was done.
pub(crate) async fn strike(system: &mut System, confirmed: &watch::Receiver<usize>) -> Vec<String> {
    let mut struck = Vec::new();
    for (part, milestone) in SCHEDULE {
        let far = async || {
            let (sends, emails) = (*confirmed.borrow(), system.outbox.captures().len());
            let reached = match milestone {
                Milestone::Confirmed(count) => sends >= count,
                Milestone::Captured(count) => emails >= count,
            };
            reached.then_some((sends, emails))
        };
        let (sends, emails) = eventually(REACHED_WITHIN, &format!("{milestone:?}"), far).await;
        system.assert_running();
        system.kill(part).await;
        struck.push(format!("{part:?} at {sends} sends and {emails} emails"));
    }
    struck
}
