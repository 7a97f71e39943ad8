//! Random faults: a seed decides the fault of each call of a provider, and all calls are recorded.
//!
//! Stand-ins use them through a rule: [`crate::http::Rule::by_chance`], [`crate::smtp::Rule::by_chance`].

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::Timestamp;

use crate::outbox::now;

/// Fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The provider answers that it failed temporarily.
    Temporary,
    /// The provider answers that calls are too frequent.
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
    /// The message is not accepted, and the call is never answered.
    Stall,
    /// The provider is down: every call fails.
    Down,
}

impl Fault {
    /// Returns true if the caller loses its connection.
    #[must_use]
    pub fn is_cut(self) -> bool {
        matches!(self, Fault::CutBefore | Fault::CutAfter)
    }
}

/// Shares (0 to 1) of calls with each fault. `gone` is a share of targets instead.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// [`Fault::Temporary`].
    pub temporary: f64,
    /// [`Fault::Busy`].
    pub busy: f64,
    /// Share of targets that are dead from the start ([`Fault::Gone`]).
    pub gone: f64,
    /// [`Fault::CutBefore`].
    pub cut_before: f64,
    /// [`Fault::CutAfter`].
    pub cut_after: f64,
    /// [`Fault::Refused`].
    pub refused: f64,
    /// [`Fault::Pause`].
    pub pause: f64,
    /// [`Fault::Stall`].
    pub stall: f64,
}

impl Shares {
    /// No faults.
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

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time at which the provider received it.
    pub at: Timestamp,
    /// Target of the message.
    pub target: String,
    /// Fault of the call; None if it succeeded.
    pub fault: Option<Fault>,
}

/// The faults of one provider.
#[derive(Debug)]
pub struct Faults {
    seed: u64,
    shares: Shares,
    /// Number of calls per scheduled fault of [`DEALT`]; None for random faults only.
    dealt_every: Option<NonZeroUsize>,
    list: Option<Arc<File>>,
    state: Mutex<State>,
}

/// Faults that [`Faults::with_scheduled_faults`] injects, in this order.
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
    /// Names that replace those of their targets in the choice of faults.
    names: HashMap<String, String>,
    /// Number of calls so far, by target.
    numbers: HashMap<String, u32>,
    calls: Vec<Call>,
    /// Number of callers that were refused before they named a target.
    turned_away: usize,
}

impl Faults {
    /// Creates the faults of a provider. The seed, the target and the number of the call for that target determine its fault.
    #[must_use]
    pub fn new(seed: u64, shares: Shares) -> Self {
        Faults { seed, shares, dealt_every: None, list: None, state: Mutex::default() }
    }

    /// In addition to random faults, makes every `every`-th call fail with the next fault of a fixed list, so that a long run
    /// contains each of these faults for any seed.
    #[must_use]
    pub fn with_scheduled_faults(self, every: NonZeroUsize) -> Self {
        Faults { dealt_every: Some(every), ..self }
    }

    /// Appends the name of every fault to `list`, one per line.
    #[must_use]
    pub fn listed(self, list: Arc<File>) -> Self {
        Faults { list: Some(list), ..self }
    }

    /// Chooses the faults of `target` as if it was called `name`. Use it for targets whose own names differ between runs.
    pub fn name(&self, target: &str, name: &str) {
        self.lock().names.insert(target.to_owned(), name.to_owned());
    }

    /// Suspends all faults while `resting` is true.
    pub fn rest(&self, resting: bool) {
        self.lock().is_resting = resting;
    }

    /// Takes the provider down, or up again: while it is down, every call fails with [`Fault::Down`].
    pub fn set_down(&self, down: bool) {
        self.lock().is_down = down;
    }

    /// Records a call and returns its fault; None if it succeeds.
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
            // If writing fails, the fault is only missing from the list.
            (&*list).write_all(format!("{fault:?}\n").as_bytes()).ok();
        }
        state.calls.push(Call { at: now(), target: target.to_owned(), fault });
        fault
    }

    /// Returns true if the provider is down, and counts a caller that is refused before it names a target.
    pub(crate) fn rejects_caller(&self) -> bool {
        let mut state = self.lock();
        let turned_away = state.is_down && !state.is_resting;
        state.turned_away += usize::from(turned_away);
        turned_away
    }

    /// Every call so far, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Number of callers that were refused before they named a target.
    #[must_use]
    pub fn rejected_callers(&self) -> usize {
        self.lock().turned_away
    }

    /// Returns the fault of the call with this number for `target`; `calls` is the number of earlier calls for all targets.
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

    /// Returns the fault of [`DEALT`] for the call after `calls` others, if one is due. The seed decides which fault is the
    /// first.
    fn scheduled_fault(&self, calls: usize) -> Option<Fault> {
        let every = self.dealt_every?.get();
        let first = usize::try_from(self.seed % DEALT.len() as u64).unwrap_or_default();
        (calls % every == every - 1).then(|| DEALT[(first + calls / every) % DEALT.len()])
    }

    /// Returns a number in 0..1 that depends only on the seed and `of`.
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
