//! Processor time of processes.

use std::fs;

/// Linux counts in hundredths of a second, whatever the kernel's own ticks are.
const MICROS_PER_TICK: u64 = 10_000;

/// A process and its direct children: `postgres` serves each connection in a child.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    root: u32,
}

impl Processes {
    pub fn below(root: u32) -> Processes {
        Processes { root }
    }

    /// The child of this process that runs the program; None if there is none, or no `/proc`.
    pub fn named(program: &str) -> Option<Processes> {
        let us = std::process::id();
        let ours = all().into_iter().find(|process| process.parent == us && process.name == program);
        ours.map(|process| Processes { root: process.id })
    }

    /// Microseconds so far.
    pub fn micros(self) -> u64 {
        let ticks = |process: Process| match process {
            // Children that have ended count for their parent.
            Process { id, own, ended, .. } if id == self.root => own + ended,
            Process { parent, own, .. } if parent == self.root => own,
            _ => 0,
        };
        all().into_iter().map(ticks).sum::<u64>() * MICROS_PER_TICK
    }
}

struct Process {
    id: u32,
    name: String,
    parent: u32,
    own: u64,
    ended: u64,
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(read).collect()
}

/// See proc(5): `id (name) state parent … utime stime cutime cstime`, of which a name may hold anything.
fn read(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (name, rest) = (text.split_once('(')?.1).rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        id,
        name: name.to_owned(),
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        ended: number(13)? + number(14)?,
    })
}
