//! Ids that no other run gives again.

/// As many random bytes in hexadecimal digits.
pub(crate) fn hex<const BYTES: usize>() -> String {
    let mut random = [0; BYTES];
    // Without random numbers ids repeat, which no test would overlook.
    aws_lc_rs::rand::fill(&mut random).ok();
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
