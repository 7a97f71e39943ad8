//! Faults by chance: a seed decides what happens to each call of a provider, and what happened is kept.
//!
//! A rule of a stand-in's script brings them in: [`crate::http::Rule::by_chance`], [`crate::smtp::Rule::by_chance`].

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
    /// The provider says: not now.
    Temporary,
    /// The provider says: not so many, wait.
    Busy,
    /// The provider says that the target is dead.
    Gone,
    /// The provider says: not this message, and never.
    Refused,
    /// The provider says that something is wrong with the account.
    Pause,
    /// The connection is cut before the message is taken.
    CutBefore,
    /// The message is taken, then the connection is cut.
    CutAfter,
    /// The message is not taken, and nothing is ever said.
    Stall,
    /// The provider is down and serves no caller.
    Down,
}

impl Fault {
    /// Returns true if the caller loses its connection.
    #[must_use]
    pub fn is_cut(self) -> bool {
        matches!(self, Fault::CutBefore | Fault::CutAfter)
    }
}

/// Shares of calls with each fault; for `gone`, of targets.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// [`Fault::Temporary`].
    pub temporary: f64,
    /// [`Fault::Busy`].
    pub busy: f64,
    /// Targets that are dead from the start.
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
    /// Nothing goes wrong.
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

/// A call, as the provider saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it came.
    pub at: Timestamp,
    /// Whom it was for.
    pub target: String,
    /// The fault, if there was one.
    pub fault: Option<Fault>,
}

/// The faults of one provider.
#[derive(Debug)]
pub struct Faults {
    seed: u64,
    shares: Shares,
    /// From one fault that is dealt to the next, in calls.
    dealt_every: Option<NonZeroUsize>,
    list: Option<Arc<File>>,
    state: Mutex<State>,
}

/// Faults to deal, in turn.
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
    /// Names that decide a target's faults, if not its own.
    names: HashMap<String, String>,
    /// Calls so far, by target.
    numbers: HashMap<String, u32>,
    calls: Vec<Call>,
    /// Callers that were refused before they named a target.
    turned_away: usize,
}

impl Faults {
    /// The same seed, target and number of the call for it come to the same fault.
    #[must_use]
    pub fn new(seed: u64, shares: Shares) -> Self {
        Faults { seed, shares, dealt_every: None, list: None, state: Mutex::default() }
    }

    /// Beside what chance brings, one call in so many goes wrong in the way whose turn it is: a run that is long enough
    /// knows every way, whatever its seed.
    #[must_use]
    pub fn dealing(self, every: NonZeroUsize) -> Self {
        Faults { dealt_every: Some(every), ..self }
    }

    /// Every fault is a line of this file, its name.
    #[must_use]
    pub fn listed(self, list: Arc<File>) -> Self {
        Faults { list: Some(list), ..self }
    }

    /// Gives calls for `target` the faults of calls for `name`: for a target whose own name is
    /// another in every run.
    pub fn name(&self, target: &str, name: &str) {
        self.lock().names.insert(target.to_owned(), name.to_owned());
    }

    /// With `true` nothing goes wrong until further notice.
    pub fn rest(&self, resting: bool) {
        self.lock().is_resting = resting;
    }

    /// Returns true if the provider is down.
    pub fn set_down(&self, down: bool) {
        self.lock().is_down = down;
    }

    /// Takes note of a call, and says what goes wrong with it.
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
            // Without its line it does not count.
            (&*list).write_all(format!("{fault:?}\n").as_bytes()).ok();
        }
        state.calls.push(Call { at: now(), target: target.to_owned(), fault });
        fault
    }

    /// Returns true if a caller is refused before it has sent its request, and records that.
    pub(crate) fn turns_away(&self) -> bool {
        let mut state = self.lock();
        let turned_away = state.is_down && !state.is_resting;
        state.turned_away += usize::from(turned_away);
        turned_away
    }

    /// Every call so far, in the order in which they came.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Callers that were sent away before they named a target.
    #[must_use]
    pub fn turned_away(&self) -> usize {
        self.lock().turned_away
    }

    /// Returns the fault of call `number` for this target, after so many `calls` for all.
    fn of(&self, target: &str, number: u32, calls: usize) -> Option<Fault> {
        if self.chance(("gone", target)) < self.shares.gone {
            return Some(Fault::Gone);
        }
        if let Some(dealt) = self.dealt(calls) {
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

    /// Seeds that follow each other begin with different ones.
    fn dealt(&self, calls: usize) -> Option<Fault> {
        let every = self.dealt_every?.get();
        let first = usize::try_from(self.seed % DEALT.len() as u64).unwrap_or_default();
        (calls % every == every - 1).then(|| DEALT[(first + calls / every) % DEALT.len()])
    }

    /// A number in 0..1.
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
