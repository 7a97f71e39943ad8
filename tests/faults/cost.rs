//! Processor time per delivery, in rounds with and without faults.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use suite::cpu::Processes;

use crate::round::Weather;

/// Measures time and processor time from its start until it is read.
pub(crate) struct Meter {
    began: Instant,
    before: Vec<(&'static str, Processes, u64)>,
}

impl Meter {
    pub(crate) fn start(processes: Vec<(&'static str, Processes)>) -> Meter {
        let before = processes.into_iter().map(|(name, some)| (name, some, some.micros())).collect();
        Meter { began: Instant::now(), before }
    }

    pub(crate) fn read(&self, deliveries: usize) -> Cost {
        let used = |(name, some, before): &(&'static str, Processes, u64)| (*name, some.micros() - before);
        let micros = self.before.iter().map(used).collect();
        Cost { deliveries, elapsed: self.began.elapsed(), micros }
    }
}

/// Time and processor time of a round.
pub(crate) struct Cost {
    deliveries: usize,
    elapsed: Duration,
    /// Processor time by program, in microseconds.
    micros: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
pub(crate) struct Costs(Vec<(Weather, Cost)>);

impl Costs {
    pub(crate) fn add(&mut self, weather: Weather, cost: Cost) {
        self.0.push((weather, cost));
    }
}

impl fmt::Display for Costs {
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "processor time per delivery in µs, by round:")?;
        for (weather, cost) in &self.0 {
            let total: u64 = cost.micros.values().sum();
            let each = |micros: u64| micros as f64 / cost.deliveries as f64;
            write!(f, "  {weather:?}: {:.0} in total", each(total))?;
            for (name, micros) in &cost.micros {
                write!(f, ", {name} {:.0}", each(*micros))?;
            }
            writeln!(f, " ({} deliveries in {:.1} s)", cost.deliveries, cost.elapsed.as_secs_f64())?;
        }
        Ok(())
    }
}
