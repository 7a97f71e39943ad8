//! Redelivery of sends that were acknowledged long ago: after a kill, nats-server 2.9.10 can lose a consumer's state. It then delivers
//! all messages again, in order, before new ones.

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

/// Reads at intervals how far the dispatchers have acknowledged each lane.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Fault>>>,
    task: JoinHandle<()>,
}

/// Progress of a lane's consumer.
struct Place {
    stream: StreamName,
    /// Highest sequence up to which everything was acknowledged.
    reached: u64,
    /// Index of the period in which the consumer is behind that sequence.
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
                    // The progress is unknown while the broker is unavailable.
                    if let Ok(Some(progress)) = log.consumer_progress(place.stream, DISPATCHER).await {
                        place.note(progress.ack_floor, &mut noted.lock().unwrap());
                    }
                }
            }
        });
        Watch { seen, task }
    }

    /// The periods in which acknowledged messages were redelivered.
    pub(crate) fn stop(self) -> Vec<Fault> {
        self.task.abort();
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Place {
    fn note(&mut self, floor: u64, times: &mut Vec<Fault>) {
        if floor < self.reached {
            let behind = *self.behind.get_or_insert_with(|| {
                let what = format!("{} is delivered again", self.stream);
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
