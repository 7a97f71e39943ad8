//! Detection of acknowledged sends that nats-server delivers again. After a kill, nats-server 2.9.10 can lose the state of a
//! consumer. It then redelivers all messages in order, and new sends have to wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::{Lane, StreamName};
use event_log::EventLog;
use suite::pace;
use tokio::task::JoinHandle;

use crate::faults::now;
use crate::scene::Fault;

const INTERVAL: Duration = Duration::from_millis(200);
const DISPATCHER: &str = "dispatcher";

/// A task that reads at intervals how far the dispatchers have acknowledged each lane.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Fault>>>,
    task: JoinHandle<()>,
}

/// Progress of a lane's consumer.
struct Place {
    stream: StreamName,
    /// Highest sequence up to which everything was acknowledged.
    reached: u64,
    /// Index of the current period of redelivery; None while the consumer is not behind `reached`.
    behind: Option<usize>,
}

impl Watch {
    pub(crate) fn start(log: EventLog) -> Watch {
        let seen = Arc::<Mutex<Vec<Fault>>>::default();
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let place = |&lane| Place { stream: StreamName::Send(lane), reached: 0, behind: None };
            let mut places: Vec<Place> = Lane::ALL.iter().map(place).collect();
            let mut pace = pace(INTERVAL);
            loop {
                pace.tick().await;
                for place in &mut places {
                    // An error means that nats-server is unavailable; the next read tries again.
                    if let Ok(Some(progress)) = log.consumer_progress(place.stream, DISPATCHER).await {
                        place.note(progress.ack_floor, &mut noted.lock().unwrap());
                    }
                }
            }
        });
        Watch { seen, task }
    }

    /// Stops the task, and returns the periods in which acknowledged messages were redelivered.
    pub(crate) fn stop(self) -> Vec<Fault> {
        self.task.abort();
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Place {
    fn note(&mut self, floor: u64, times: &mut Vec<Fault>) {
        if floor < self.reached {
            let behind = *self.behind.get_or_insert_with(|| {
                let what = format!("{} is redelivered", self.stream);
                times.push(Fault { what, from: now(), until: now() });
                times.len() - 1
            });
            times[behind].until = now();
        } else {
            self.reached = floor;
            if let Some(behind) = self.behind.take() {
                times[behind].until = now();
            }
        }
    }
}
