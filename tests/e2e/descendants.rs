//! The processes that a process has started, directly or not.

use std::path::PathBuf;

/// A process by its number and its start, so that a later one with the same number is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descendant {
    pub(crate) id: u32,
    pub(crate) parent: u32,
    /// Short name of the program.
    pub(crate) name: String,
    started: String,
}

impl Descendant {
    /// Whether it runs; who has ended and only waits to be reaped does not.
    pub(crate) fn is_running(&self) -> bool {
        read(self.id).is_some_and(|now| now.started == self.started)
    }
}

/// Everything below the process `ancestor` now.
pub(crate) fn of(ancestor: u32) -> Vec<Descendant> {
    let ids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<Descendant> = ids.filter_map(read).collect();
    let mut found: Vec<Descendant> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|process| process.parent == parent);
        parents.extend(children.clone().map(|child| child.id));
        found.extend(children.cloned());
    }
    found
}

/// A process by its number; None for one that is gone or dead.
fn read(id: u32) -> Option<Descendant> {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{id}/stat"))).ok()?;
    // proc_pid_stat(5): the name, in parentheses, may contain anything.
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let (state, parent, started) = (fields.first()?, fields.get(1)?.parse().ok()?, fields.get(19)?);
    (*state != "Z" && *state != "X").then(|| Descendant { id, parent, name, started: (*started).to_owned() })
}
