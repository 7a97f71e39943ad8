//! Rules with which a test makes a stand-in answer wrongly, late or not at all.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

pub trait Protocol {
    type Moment<'a>: Copy;
    /// The default applies always.
    type Filter: Clone + Debug + Default;
    type Reaction: Clone + Debug;
    /// State of a rule that reacts by chance.
    type Chance: Clone + Debug;

    fn applies(filter: &Self::Filter, moment: Self::Moment<'_>) -> bool;
    fn by_chance(chance: &mut Self::Chance, moment: Self::Moment<'_>) -> Option<Self::Reaction>;
}

#[derive(Clone, Debug)]
pub struct Rule<P: Protocol> {
    pub(crate) filter: P::Filter,
    cause: Cause<P>,
}

#[derive(Clone, Debug)]
enum Cause<P: Protocol> {
    Order { reaction: P::Reaction, times: u32 },
    Chance(P::Chance),
}

impl<P: Protocol> Rule<P> {
    pub(crate) fn once(filter: P::Filter, reaction: P::Reaction) -> Self {
        Rule { filter, cause: Cause::Order { reaction, times: 1 } }
    }

    /// The rule stays until the stand-in stops.
    pub(crate) fn always(filter: P::Filter, chance: P::Chance) -> Self {
        Rule { filter, cause: Cause::Chance(chance) }
    }

    /// Number of reactions. Has no effect on a rule created by `by_chance`.
    #[must_use]
    pub fn times(mut self, most: u32) -> Self {
        if let Cause::Order { times, .. } = &mut self.cause {
            *times = most;
        }
        self
    }

    fn react(&mut self, moment: P::Moment<'_>) -> Option<P::Reaction> {
        if !P::applies(&self.filter, moment) {
            return None;
        }
        match &mut self.cause {
            Cause::Order { reaction, times } => {
                *times = times.saturating_sub(1);
                Some(reaction.clone())
            }
            Cause::Chance(chance) => P::by_chance(chance, moment),
        }
    }

    fn is_used_up(&self) -> bool {
        matches!(self.cause, Cause::Order { times: 0, .. })
    }
}

/// Rules that can still react, oldest first.
#[derive(Debug)]
pub struct Script<P: Protocol>(Mutex<Vec<Rule<P>>>);

impl<P: Protocol> Default for Script<P> {
    fn default() -> Self {
        Script(Mutex::new(Vec::new()))
    }
}

impl<P: Protocol> Script<P> {
    pub fn add(&self, rule: Rule<P>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    #[must_use]
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Number of reactions of all rules, except those by chance.
    pub(crate) fn reactions_left(&self) -> u64 {
        let rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_rule = |rule: &Rule<P>| match rule.cause {
            Cause::Order { times, .. } => u64::from(times),
            Cause::Chance(_) => 0,
        };
        rules.iter().map(of_rule).sum()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Reaction of the first rule that applies, counted against the rule's limit.
    #[must_use]
    pub fn take(&self, moment: P::Moment<'_>) -> Option<P::Reaction> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reaction = rules.iter_mut().find_map(|rule| rule.react(moment))?;
        rules.retain(|rule| !rule.is_used_up());
        Some(reaction)
    }
}
