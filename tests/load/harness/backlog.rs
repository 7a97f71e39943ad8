//! Accepted jobs that the provider has not answered.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use uuid::Uuid;

/// A line of the provider's list of accepted calls.
#[derive(Deserialize)]
pub(crate) struct Call {
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) delivery: Uuid,
}

/// Counts jobs while the provider's list grows. Repeated calls do not count, nor do calls for sends that NATS stored although the answer
/// was not a 202.
pub(crate) struct Backlog {
    list: File,
    /// Start of an incomplete line.
    rest: Vec<u8>,
    /// Sends by the first half of their id, which is also that of their deliveries' ids.
    open: HashMap<u64, OpenSend>,
    accepted: u64,
    answered: u64,
}

#[derive(Default)]
struct OpenSend {
    /// Zero until the send is accepted.
    jobs: u64,
    answered: HashSet<Uuid>,
}

impl Backlog {
    pub(crate) fn open(list: &Path) -> Backlog {
        let list = File::open(list).unwrap();
        Backlog { list, rest: Vec::new(), open: HashMap::new(), accepted: 0, answered: 0 }
    }

    pub(crate) fn accept(&mut self, send: Uuid, jobs: u64) {
        let (half, _) = send.as_u64_pair();
        let open = self.open.entry(half).or_default();
        if open.jobs == 0 {
            // The provider may answer before the gateway does.
            self.answered += open.answered.len() as u64;
        }
        open.jobs += jobs;
        self.accepted += jobs;
        self.forget_if_done(half);
    }

    pub(crate) fn depth(&mut self) -> u64 {
        self.list.read_to_end(&mut self.rest).unwrap();
        if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.rest.split_off(end + 1);
            let lines = std::mem::replace(&mut self.rest, rest);
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                self.answer(serde_json::from_slice::<Call>(line).unwrap().delivery);
            }
        }
        self.accepted.saturating_sub(self.answered)
    }

    fn answer(&mut self, delivery: Uuid) {
        let (half, _) = delivery.as_u64_pair();
        let open = self.open.entry(half).or_default();
        if open.answered.insert(delivery) && open.jobs > 0 {
            self.answered += 1;
        }
        self.forget_if_done(half);
    }

    fn forget_if_done(&mut self, half: u64) {
        let is_done = |send: &OpenSend| send.jobs > 0 && send.answered.len() as u64 >= send.jobs;
        if self.open.get(&half).is_some_and(is_done) {
            self.open.remove(&half);
        }
    }
}

// The benchmark has no tests, so that an import here would be unused in it.
#[cfg(test)]
mod tests {
    #[test]
    fn each_job_of_an_accepted_send_counts_once() {
        let id = uuid::Uuid::from_u64_pair;
        let mut backlog = super::Backlog::open(std::path::Path::new("/dev/null"));
        backlog.answer(id(1, 11));
        backlog.answer(id(2, 21));
        backlog.accept(id(1, 0), 2);
        assert_eq!(backlog.depth(), 1, "a call before the 202 counts");
        backlog.answer(id(1, 11));
        backlog.answer(id(2, 22));
        assert_eq!(backlog.depth(), 1, "neither a repeated call counts, nor one of another send");
        backlog.answer(id(1, 12));
        backlog.answer(id(1, 12));
        assert_eq!(backlog.depth(), 0);
        backlog.accept(id(3, 0), 1);
        assert_eq!(backlog.depth(), 1, "no earlier call counts for a later send");
    }
}
