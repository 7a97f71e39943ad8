//! Random faults of providers. A seed determines the fault of each call, so a run can be repeated. All calls are
//! recorded.
//!
//! A stand-in produces these faults if its script contains a rule created by [`crate::http::Rule::by_chance`] or
//! [`crate::smtp::Rule::by_chance`].

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::Timestamp;

use crate::outbox::now;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The provider answers that it failed temporarily.
    Temporary,
    /// The provider answers that there are too many calls.
    Busy,
    /// The provider answers that the target is dead.
    Gone,
    /// The provider refuses the message permanently.
    Refused,
    /// The provider answers that the account has a problem.
    Pause,
    /// The connection is closed before the message is accepted.
    CutBefore,
    /// The message is accepted, and the connection is closed without an answer.
    CutAfter,
    /// The message is not accepted, and the provider never answers.
    Stall,
    /// The provider is down: every call fails.
    Down,
}

impl Fault {
    #[must_use]
    pub fn is_cut(self) -> bool {
        matches!(self, Fault::CutBefore | Fault::CutAfter)
    }
}

/// Fractions from 0 to 1. Each field is the fraction of calls that fail with the [`Fault`] of the same name, except that
/// `gone` is a fraction of targets.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    pub temporary: f64,
    pub busy: f64,
    /// Fraction of targets, not of calls.
    pub gone: f64,
    pub cut_before: f64,
    pub cut_after: f64,
    pub refused: f64,
    pub pause: f64,
    pub stall: f64,
}

impl Shares {
    pub const NONE: Shares = Shares {
        temporary: 0.0,
        busy: 0.0,
        gone: 0.0,
        cut_before: 0.0,
        cut_after: 0.0,
        refused: 0.0,
        pause: 0.0,
        stall: 0.0,
    };
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub at: Timestamp,
    pub target: String,
    pub fault: Option<Fault>,
}

#[derive(Debug)]
pub struct Faults {
    seed: u64,
    shares: Shares,
    /// Calls from one scheduled fault to the next. None means that all faults are random.
    dealt_every: Option<NonZeroUsize>,
    list: Option<Arc<File>>,
    state: Mutex<State>,
}

/// Scheduled faults, in order.
const DEALT: [Fault; 7] = [
    Fault::Pause,
    Fault::Stall,
    Fault::CutAfter,
    Fault::CutBefore,
    Fault::Refused,
    Fault::Busy,
    Fault::Temporary,
];

#[derive(Debug, Default)]
struct State {
    is_resting: bool,
    is_down: bool,
    /// Names by target ([`Faults::name`]). The faults of a target with a name depend on the name, not on the target.
    names: HashMap<String, String>,
    numbers: HashMap<String, u32>,
    calls: Vec<Call>,
    /// Number of clients that were refused before they named a target.
    turned_away: usize,
}

impl Faults {
    /// Creates the faults of a provider. The fault of a call depends on the seed, on the target, and on the number of
    /// earlier calls for that target.
    #[must_use]
    pub fn new(seed: u64, shares: Shares) -> Self {
        Faults { seed, shares, dealt_every: None, list: None, state: Mutex::default() }
    }

    /// Adds scheduled faults: after each `every` - 1 calls, one call fails with the next fault of a fixed list.
    /// So a long run contains each of these faults, whatever the seed is.
    #[must_use]
    pub fn with_scheduled_faults(self, every: NonZeroUsize) -> Self {
        Faults { dealt_every: Some(every), ..self }
    }

    /// Appends the name of each fault to this file, one per line.
    #[must_use]
    pub fn listed(self, list: Arc<File>) -> Self {
        Faults { list: Some(list), ..self }
    }

    /// Gives `target` a name, on which its faults then depend. Use this for a target that is different in every run, so
    /// that runs with the same seed still have the same faults.
    pub fn name(&self, target: &str, name: &str) {
        self.lock().names.insert(target.to_owned(), name.to_owned());
    }

    pub fn rest(&self, resting: bool) {
        self.lock().is_resting = resting;
    }

    pub fn set_down(&self, down: bool) {
        self.lock().is_down = down;
    }

    pub fn next(&self, target: &str) -> Option<Fault> {
        let mut state = self.lock();
        let number = state.numbers.entry(target.to_owned()).or_default();
        *number += 1;
        let number = *number;
        let fault = match () {
            () if state.is_resting => None,
            () if state.is_down => Some(Fault::Down),
            () => self.of(state.names.get(target).map_or(target, String::as_str), number, state.calls.len()),
        };
        if let Some((list, fault)) = self.list.as_deref().zip(fault) {
            // If writing fails, the list lacks the fault, and nothing else is affected.
            (&*list).write_all(format!("{fault:?}\n").as_bytes()).ok();
        }
        state.calls.push(Call { at: now(), target: target.to_owned(), fault });
        fault
    }

    pub(crate) fn rejects_caller(&self) -> bool {
        let mut state = self.lock();
        let turned_away = state.is_down && !state.is_resting;
        state.turned_away += usize::from(turned_away);
        turned_away
    }

    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Clients refused before they named a target.
    #[must_use]
    pub fn rejected_callers(&self) -> usize {
        self.lock().turned_away
    }

    /// Returns the fault of a call. `number` counts the calls for `target`, including this one; `calls` counts all earlier
    /// calls, for any target.
    fn of(&self, target: &str, number: u32, calls: usize) -> Option<Fault> {
        if self.chance(("gone", target)) < self.shares.gone {
            return Some(Fault::Gone);
        }
        if let Some(dealt) = self.scheduled_fault(calls) {
            return Some(dealt);
        }
        let Shares { temporary, busy, cut_before, cut_after, refused, pause, stall, .. } = self.shares;
        let mut left = self.chance(("call", target, number));
        for (share, fault) in [
            (temporary, Fault::Temporary),
            (busy, Fault::Busy),
            (cut_before, Fault::CutBefore),
            (cut_after, Fault::CutAfter),
            (refused, Fault::Refused),
            (pause, Fault::Pause),
            (stall, Fault::Stall),
        ] {
            if left < share {
                return Some(fault);
            }
            left -= share;
        }
        None
    }

    /// Returns the scheduled fault for the call after `calls` earlier ones, if one is due. The seed determines the
    /// first fault of the schedule.
    fn scheduled_fault(&self, calls: usize) -> Option<Fault> {
        let every = self.dealt_every?.get();
        let first = usize::try_from(self.seed % DEALT.len() as u64).unwrap_or_default();
        (calls % every == every - 1).then(|| DEALT[(first + calls / every) % DEALT.len()])
    }

    /// Number of at least 0 and less than 1 that depends only on the seed and on `of`.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn chance(&self, of: impl Hash) -> f64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, of).hash(&mut hasher);
        (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
