//! Progress of a long command on standard error: a bar on a terminal, otherwise lines.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use inbox::{Phase, Step};

const REDRAWN_EVERY: Duration = Duration::from_millis(100);
/// Interval after which a line is written even if the percentage has hardly changed.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// A line is written at each multiple of this percentage.
const PERCENT: u64 = 5;
const WIDTH: u64 = 30;

pub(crate) struct Progress {
    is_terminal: bool,
    state: Mutex<State>,
}

struct State {
    phase: Option<Phase>,
    total: u64,
    done: u64,
    began: Instant,
    /// Time and percentage of the last output.
    printed: Option<(Instant, u64)>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let state = State { phase: None, total: 0, done: 0, began: Instant::now(), printed: None };
        Progress { is_terminal: std::io::stderr().is_terminal(), state: Mutex::new(state) }
    }

    pub(crate) fn report(&self, step: Step) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            // The same phase begins again if new events arrived during it. Add them to the total and continue the
            // display.
            Step::Begins(phase, total) if state.phase == Some(phase) => state.total = state.done + total,
            Step::Begins(phase, total) => {
                self.end_line(&state);
                *state = State { phase: Some(phase), total, done: 0, began: Instant::now(), printed: None };
            }
            Step::Done(more) => state.done += more,
        }
        let now = Instant::now();
        if self.is_due(&state, now) {
            self.write(&state, now);
            state.printed = Some((now, state.percent()));
        }
    }

    fn is_due(&self, state: &State, now: Instant) -> bool {
        let Some((at, percent)) = state.printed else { return true };
        let is_complete = state.total > 0 && state.done == state.total && percent < 100;
        if self.is_terminal {
            return is_complete || now - at >= REDRAWN_EVERY;
        }
        is_complete || state.percent() >= percent - percent % PERCENT + PERCENT || now - at >= LINE_EVERY
    }

    /// Ignores a failure to write.
    fn write(&self, state: &State, now: Instant) {
        let text = state.text(now);
        let mut errors = std::io::stderr().lock();
        let written = if self.is_terminal {
            let filled = state.percent() * WIDTH / 100;
            let bar: String = (0..WIDTH).map(|place| if place < filled { '#' } else { '-' }).collect();
            write!(errors, "\r\x1b[K[{bar}] {text}")
        } else {
            writeln!(errors, "tidings: {text}")
        };
        written.and_then(|()| errors.flush()).ok();
    }

    fn end_line(&self, state: &State) {
        if self.is_terminal && state.printed.is_some() {
            writeln!(std::io::stderr()).ok();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end_line(&self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    fn percent(&self) -> u64 {
        (self.done * 100).checked_div(self.total).unwrap_or(0).min(100)
    }

    fn text(&self, now: Instant) -> String {
        let (verb, unit) = match self.phase {
            Some(Phase::Copying) => ("copying the backup", "rows"),
            Some(Phase::Replaying) => ("replaying", "events"),
            Some(Phase::Comparing) => ("comparing", "users"),
            Some(Phase::Switching) => ("switching", "tables"),
            None => ("starting", ""),
        };
        if self.total == 0 && self.done == 0 {
            return verb.to_owned();
        }
        let seconds = (now - self.began).as_millis().max(1);
        let rate = u128::from(self.done) * 1000 / seconds;
        if self.total == 0 {
            return format!("{verb} ({} {unit}, {rate}/s)", self.done);
        }
        format!("{verb} {} % ({} of {} {unit}, {rate}/s)", self.percent(), self.done, self.total)
    }
}
