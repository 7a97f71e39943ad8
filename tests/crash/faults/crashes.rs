//! Processes that killed themselves at a crash point. Each writes a line to a file before it dies.

use std::path::PathBuf;

use sabotage::CrashPoint;

/// Reader of the file that the variable [`sabotage::CRASHES`] names.
#[derive(Debug)]
pub(super) struct Crashes {
    file: PathBuf,
    /// True for each line that was already counted. A process id may be in several lines, because the system reuses ids.
    known: Vec<bool>,
}

impl Crashes {
    pub(super) fn of(file: PathBuf) -> Crashes {
        Crashes { file, known: Vec::new() }
    }

    /// Crash point at which this process killed itself; None if it did not.
    pub(super) fn take(&mut self, process: u32) -> Option<CrashPoint> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        self.known.resize(lines.len(), false);
        let process = process.to_string();
        let found = lines.iter().enumerate().find_map(|(number, line)| {
            let (point, its) = line.split_once(' ')?;
            (its == process && !self.known[number]).then(|| (number, CrashPoint::named(point)))
        });
        let (number, point) = found?;
        self.known[number] = true;
        point
    }
}
