//! Numbers drawn from a seed (splitmix64): the same seed, the same numbers.

/// A source of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Whether one of a hundred sides, so many of which say yes, says yes.
    pub(crate) fn percent(&mut self, sides: u64) -> bool {
        self.next() % 100 < sides
    }

    /// One of these.
    pub(crate) fn of<'a, T>(&mut self, these: &'a [T]) -> Option<&'a T> {
        match these.len() {
            0 => None,
            bound => these.get(self.below(bound)),
        }
    }

    /// A number in 0..1.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 20)
    }
}
