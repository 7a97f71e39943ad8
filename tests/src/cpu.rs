//! Processor time of processes.

use std::fs;

/// Linux reports processor time in hundredths of a second, regardless of the kernel's own tick rate.
const MICROS_PER_TICK: u64 = 10_000;

/// A process and its direct children. `postgres`, for example, serves each connection in a child.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    root: u32,
}

impl Processes {
    pub fn below(root: u32) -> Processes {
        Processes { root }
    }

    /// Finds the youngest child of this process that runs the program. Returns None if it does not exist, or the system has no `/proc`.
    pub fn named(program: &str) -> Option<Processes> {
        let us = std::process::id();
        let ours = all().into_iter().filter(|process| process.parent == us && process.name == program);
        ours.max_by_key(|process| process.started).map(|process| Processes { root: process.id })
    }

    /// Processor time so far, in microseconds.
    pub fn micros(self) -> u64 {
        let ticks = |process: Process| match process {
            // The counters of the root process include its children that have ended.
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
    /// Ticks from the start of the system.
    started: u64,
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

/// Reads `/proc/{id}/stat`: `id (name) state parent … utime stime cutime cstime … starttime` (proc(5)). The name may contain any character.
fn read(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (name, rest) = (text.split_once('(')?.1).rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        id,
        name: name.to_owned(),
        parent: u32::try_from(number(1)?).ok()?,
        started: number(19)?,
        own: number(11)? + number(12)?,
        ended: number(13)? + number(14)?,
    })
}
