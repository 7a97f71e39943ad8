//! Processes that killed themselves. Each writes a line to a file before it dies.

use std::path::PathBuf;

use sabotage::{CrashPoint, POISONED};

/// Reason for which a process killed itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    AtPoint(CrashPoint),
    /// It handled the poison.
    OfPoison,
}

impl Death {
    fn named(name: &str) -> Option<Death> {
        if name == POISONED { Some(Death::OfPoison) } else { CrashPoint::named(name).map(Death::AtPoint) }
    }
}

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

    /// Returns the reason for which this process killed itself, or None if it did not. Returns each death only once.
    pub(super) fn take(&mut self, process: u32) -> Option<Death> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        self.known.resize(lines.len(), false);
        let process = process.to_string();
        let found = lines.iter().enumerate().find_map(|(number, line)| {
            let (point, its) = line.split_once(' ')?;
            (its == process && !self.known[number]).then(|| (number, Death::named(point)))
        });
        let (number, point) = found?;
        self.known[number] = true;
        point
    }
}
