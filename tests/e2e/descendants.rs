//! The direct and indirect child processes of a process.

use std::path::PathBuf;

/// A process, identified by its id and start time, because the system reuses ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descendant {
    pub(crate) id: u32,
    pub(crate) parent: u32,
    /// Short name of the program.
    pub(crate) name: String,
    started: String,
}

impl Descendant {
    /// Returns true if the process runs. A zombie does not count.
    pub(crate) fn is_running(&self) -> bool {
        read(self.id).is_some_and(|now| now.started == self.started)
    }
}

/// Lists the current descendants of the process `ancestor`.
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

/// Reads a process by its id. Returns None if it has ended.
fn read(id: u32) -> Option<Descendant> {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{id}/stat"))).ok()?;
    // proc_pid_stat(5): the name stands in parentheses and may contain any character.
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let (state, parent, started) = (fields.first()?, fields.get(1)?.parse().ok()?, fields.get(19)?);
    (*state != "Z" && *state != "X").then(|| Descendant { id, parent, name, started: (*started).to_owned() })
}
