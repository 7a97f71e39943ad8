//! Detection of periods in which the machine does not run this process, for instance because a hypervisor has paused the machine
//! or other processes use every processor.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::faults::now;
use crate::scene::Fault;

const INTERVAL: Duration = Duration::from_millis(50);
/// Delay of a wake-up from which it counts as a stall. Under the load of the run itself, wake-ups are delayed by a few
/// milliseconds.
const LATE: Duration = Duration::from_millis(500);

/// A thread that notes when it wakes up late.
pub(crate) struct Stalls {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Fault>>,
}

impl Stalls {
    pub(crate) fn watch() -> Stalls {
        let (stop, stopped) = channel();
        Stalls { stop, thread: std::thread::spawn(move || note_stalls(&stopped)) }
    }

    /// Stops the thread, and returns the stalls.
    pub(crate) fn stop(self) -> Vec<Fault> {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}

fn note_stalls(stopped: &Receiver<()>) -> Vec<Fault> {
    let mut stalls = Vec::new();
    loop {
        let (from, due) = (now(), Instant::now() + INTERVAL);
        let result = stopped.recv_timeout(INTERVAL);
        if due.elapsed() >= LATE {
            stalls.push(Fault { what: "the machine stalled".to_owned(), from, until: now() });
        }
        if result != Err(RecvTimeoutError::Timeout) {
            return stalls;
        }
    }
}
