//! An instance of the inbox projection: reads on from its checkpoint, folds, and writes in a transaction that moves the
//! checkpoint, unless another instance was there first.

use domain::inbox::fold::{Erased, Fold, Origin};

use crate::choice::Luck;
use crate::dice::Dice;
use crate::log::{APP, PARTITIONS};
use crate::mutant::Mutant;
use crate::rule::Rule;
use crate::world::World;

/// Events of one batch at most.
const BATCH: usize = 3;

/// An instance, partition by partition.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    followers: [Follower; PARTITIONS as usize],
    /// Who is erased, as far as it knows: read with the checkpoint, then followed event by event.
    erased: [Erased; PARTITIONS as usize],
}

/// How far an instance is with a partition.
#[derive(Clone, Copy, Debug, Default)]
enum Follower {
    /// It does not know the checkpoint.
    #[default]
    Lost,
    /// It has projected up to there.
    At(u64),
    /// It has read the events after the first number, up to the second.
    Read(u64, u64),
}

impl World {
    pub(crate) fn step_projection(&mut self, number: usize, luck: Luck, dice: &mut Dice) -> bool {
        let first = dice.below(PARTITIONS as usize);
        (0..PARTITIONS as usize)
            .map(|next| (first + next) % PARTITIONS as usize)
            .any(|partition| self.follow(number, partition, luck, dice))
    }

    fn follow(&mut self, number: usize, partition: usize, luck: Luck, dice: &mut Dice) -> bool {
        let before = self.projections[number].followers[partition];
        let last = self.log.inbox[partition].len() as u64;
        let after = match before {
            Follower::Lost if luck != Luck::Done => Follower::Lost,
            Follower::Lost => {
                let is_unknown = self.is(Mutant::ErasedNotLoaded);
                let erased = if is_unknown { Erased::new() } else { self.erased() };
                self.projections[number].erased[partition] = erased;
                Follower::At(self.store.checkpoints[partition])
            }
            Follower::At(seq) if seq >= last => return false,
            Follower::At(seq) => {
                let most = 1 + dice.below(BATCH) as u64;
                Follower::Read(seq, last.min(seq + most))
            }
            Follower::Read(from, to) => {
                let is_written = luck != Luck::Failed && self.project(number, partition, from, to);
                if is_written && luck == Luck::Done { Follower::At(to) } else { Follower::Lost }
            }
        };
        self.projections[number].followers[partition] = after;
        true
    }

    /// The transaction of a batch; false where another instance is ahead.
    fn project(&mut self, number: usize, partition: usize, from: u64, to: u64) -> bool {
        let checkpoint = self.store.checkpoints[partition];
        if checkpoint != from && !self.is(Mutant::CheckpointNotCompared) {
            return false;
        }
        let mut erased = std::mem::take(&mut self.projections[number].erased[partition]);
        let fold = self.fold(partition, from, to, &mut erased);
        self.projections[number].erased[partition] = erased;
        self.store.inbox.write(&fold, self.now, self.mutant);
        self.store.checkpoints[partition] = to;
        self.note(|| format!("    partition {partition} is projected from {from} to {to}"));
        self.require(to >= checkpoint, Rule::CheckpointGrows, || {
            format!("partition {partition} was at {checkpoint} and is at {to}")
        });
        self.check_kept();
        true
    }

    /// Whoever is erased, as the database says.
    pub(crate) fn erased(&self) -> Erased {
        self.store.erased.iter().map(|erasure| (APP, erasure.user)).collect()
    }

    /// The events after `from` up to `to`, folded.
    pub(crate) fn fold(&self, partition: usize, from: u64, to: u64, erased: &mut Erased) -> Fold {
        let origin = Origin { partition: u32::try_from(partition).unwrap(), partitions: PARTITIONS };
        let mut fold = Fold::default();
        let events = &self.log.inbox[partition][usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
        for (seq, event) in (from + 1..).zip(events) {
            fold.push(origin, seq, event, erased).unwrap();
        }
        fold
    }
}
