//! Random choices that a seed reproduces.

/// Pseudo-random number generator (SplitMix64).
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// Creates the generator for the request with this index.
    pub(crate) fn new(seed: u64, index: u64) -> Chance {
        Chance { state: seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(index << 20) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Returns true once per `times` calls on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Picks one of the items.
    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
