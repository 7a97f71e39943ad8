pub(crate) fn hex<const BYTES: usize>() -> String {
    let mut random = [0; BYTES];
    // If no random numbers are available, all ids are equal, which makes tests fail.
    aws_lc_rs::rand::fill(&mut random).ok();
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
