//! Journal of the answers that clients received. A client continues only after its line is on disk.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

const FILE: &str = "journal.jsonl";
/// Maximum number of lines per write; also the capacity of the queue of waiting lines.
const TOGETHER: usize = 512;

/// A call of a client, with its answer. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "camelCase")]
pub(crate) enum Line {
    /// A send was tried. The status is None if no answer came.
    Tried { notice: usize, gateway: usize, at: i64, status: Option<u16> },
    /// A send was confirmed with a 202.
    Confirmed { notice: usize, request: Uuid, at: i64 },
    /// A user requested a change to their inbox. The status is None if no answer came.
    Changed { user: usize, change: Change, status: Option<u16>, at: i64 },
    /// A user listed their inbox.
    Listed { user: usize, page: Page, at: i64 },
    /// A user failed to list their inbox. The status is None if no answer came.
    NotListed { user: usize, status: Option<u16>, at: i64 },
    /// A client tried to change a user's email address; `changes` is the number of this change.
    Moved { user: usize, changes: usize, status: Option<u16>, at: i64 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    Seen(i64),
    Unseen(i64),
    Read(i64),
    Unread(i64),
    Deleted(i64),
    StateSet(i64, String),
    Archived(i64),
    /// Hidden until this time, in milliseconds since 1970.
    Snoozed(i64, i64),
    AllRead,
    AllDeleted,
}

impl Change {
    pub(crate) const KINDS: [&str; 10] = [
        "seen",
        "unseen",
        "read",
        "unread",
        "deleted",
        "state set",
        "archived",
        "snoozed",
        "all read",
        "all deleted",
    ];

    /// Name of the kind of change, one of [`KINDS`](Self::KINDS).
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Change::Seen(_) => "seen",
            Change::Unseen(_) => "unseen",
            Change::Read(_) => "read",
            Change::Unread(_) => "unread",
            Change::Deleted(_) => "deleted",
            Change::StateSet(..) => "state set",
            Change::Archived(_) => "archived",
            Change::Snoozed(..) => "snoozed",
            Change::AllRead => "all read",
            Change::AllDeleted => "all deleted",
        }
    }

    /// Returns true if a 400 that was received at `at` is the right answer: the request waited until the snooze was over.
    pub(crate) fn may_be_refused(&self, at: i64) -> bool {
        matches!(self, Change::Snoozed(_, until) if *until <= at)
    }
}

/// The first page of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) items: Vec<ShownItem>,
    /// True if older items follow.
    pub(crate) more: bool,
    pub(crate) total: i64,
    pub(crate) unread: i64,
    pub(crate) unseen: i64,
}

/// An item as a list shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownItem {
    pub(crate) id: i64,
    pub(crate) title: String,
    pub(crate) created_at: i64,
    pub(crate) seen: bool,
    pub(crate) read: bool,
    pub(crate) state: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Journal {
    lines: mpsc::Sender<(Line, oneshot::Sender<()>)>,
}

impl Journal {
    /// Creates a journal in the directory.
    pub(crate) fn begin(directory: &Path) -> Journal {
        std::fs::create_dir_all(directory).unwrap();
        let file = File::create_new(path(directory)).unwrap();
        let (lines, written) = mpsc::channel(TOGETHER);
        std::thread::spawn(move || write_all(file, written));
        Journal { lines }
    }

    /// Writes a line, and returns when the line is on disk.
    pub(crate) async fn write(&self, line: Line) {
        let (done, is_done) = oneshot::channel();
        self.lines.send((line, done)).await.unwrap();
        is_done.await.unwrap();
    }

    /// Reads all lines on disk, in the order in which they were written.
    pub(crate) fn read(directory: &Path) -> Vec<Line> {
        let text = std::fs::read_to_string(path(directory)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Writes all waiting lines with one write and one sync.
fn write_all(mut file: File, mut lines: mpsc::Receiver<(Line, oneshot::Sender<()>)>) {
    let mut waiting = Vec::new();
    while let Some((line, done)) = lines.blocking_recv() {
        let mut text = serde_json::to_string(&line).unwrap() + "\n";
        waiting.push(done);
        while waiting.len() < TOGETHER
            && let Ok((line, done)) = lines.try_recv()
        {
            text += &(serde_json::to_string(&line).unwrap() + "\n");
            waiting.push(done);
        }
        file.write_all(text.as_bytes()).unwrap();
        file.sync_data().unwrap();
        for done in waiting.drain(..) {
            // Fails if the caller no longer waits.
            done.send(()).ok();
        }
    }
}
