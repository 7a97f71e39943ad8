//! Processor time of the services and servers, also of those that are killed.

use std::sync::{Arc, Mutex};

use suite::cpu::Processes;

/// Adds up processor time. A process that is killed takes its counter along, so the meter must read it before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Id of each service process, and its processor time at the last reading.
    services: Vec<(u32, u64)>,
    nats: u64,
    postgres: u64,
    /// Microseconds of services, nats-server and PostgreSQL.
    totals: [u64; 3],
}

impl Meter {
    pub(crate) fn add_service(&self, id: u32) {
        self.0.lock().unwrap().services.push((id, 0));
    }

    /// Begins a new counter for PostgreSQL, whose process has ended.
    pub(crate) fn postgres_ended(&self) {
        self.0.lock().unwrap().postgres = 0;
    }

    /// Microseconds that services, nats-server and PostgreSQL have used so far.
    pub(crate) fn used(&self) -> [u64; 3] {
        let mut state = self.0.lock().unwrap();
        let State { services, nats, postgres, totals } = &mut *state;
        for (id, last) in services {
            totals[0] += since(last, Processes::below(*id).micros());
        }
        for (name, last, total) in [("nats-server", nats, 1), ("postgres", postgres, 2)] {
            totals[total] += since(last, Processes::named(name).map_or(0, Processes::micros));
        }
        *totals
    }
}

/// Time since the largest reading of the same process. A reading is too small if a child ends while it is made, because a child's time
/// is added to that of its parent only afterwards.
fn since(last: &mut u64, now: u64) -> u64 {
    let used = now.saturating_sub(*last);
    *last += used;
    used
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_time_is_counted_twice_if_a_reading_is_too_small() {
        let mut last = 0;
        let readings = [50, 80, 70, 0, 90].map(|now| super::since(&mut last, now));
        assert_eq!(readings, [50, 30, 0, 0, 10]);
    }
}
