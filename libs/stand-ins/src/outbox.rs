//! Outbox of the messages that stand-ins accepted, in memory and in a file of JSON lines.
//!
//! A stand-in captures a message before it confirms the message. So the file contains every confirmed message, even if the process was
//! killed.

mod accepted;
pub(crate) mod faults;
mod file;
mod http;
mod page;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;
use hyper::Request;
use serde::{Deserialize, Serialize};

use accepted::AcceptedFile;
use file::CaptureFile;
pub(crate) use file::private;
pub use http::OutboxServer;

pub const DEFAULT_KEEP: usize = 10_000;
/// Maximum total size of the captured messages in memory, in bytes.
const KEEP_BYTES: usize = 512 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// Number that is unique in an outbox, even after a restart.
    pub id: u64,
    pub channel: String,
    pub received_at: Timestamp,
    pub from: String,
    pub to: Vec<String>,
    /// The message as received: the body of the HTTP request, the content of an email over SMTP, or the short message
    /// of the last part of an SMS over SMPP.
    #[serde(with = "file::base64_text")]
    pub raw: Vec<u8>,
    /// Title, text and headers, as the stand-in read them. Empty for an email over SMTP, which is parsed when it is
    /// shown.
    #[serde(default)]
    pub summary: Summary,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub subject: Option<String>,
    pub text: Option<String>,
    /// Headers of the HTTP request, by lower-case name.
    pub headers: BTreeMap<String, Vec<String>>,
}

impl Summary {
    /// Builds a summary from the title, the text and the headers of the request.
    #[must_use]
    pub fn of_request<T>(request: &Request<T>, subject: Option<String>, text: Option<String>) -> Summary {
        let mut headers = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in request.headers() {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.entry(name.as_str().to_owned()).or_default().push(value);
        }
        Summary { subject, text, headers }
    }
}

#[derive(Debug)]
pub struct Outbox {
    keep: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    captures: VecDeque<Arc<Capture>>,
    bytes: usize,
    next_id: u64,
    file: Option<CaptureFile>,
    accepted: Option<AcceptedFile>,
}

impl Outbox {
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        Arc::new(Outbox { keep: DEFAULT_KEEP, state: Mutex::new(State::empty()) })
    }

    /// Creates an outbox that keeps no captures, but appends one line per message to the file at `path`:
    /// `{"at","channel","delivery","target"}`, with `at` in milliseconds since 1970. [`capture`](Self::capture) fails for a message without
    /// a delivery id.
    pub fn listed(path: &Path) -> io::Result<Arc<Self>> {
        let state = State { accepted: Some(AcceptedFile::open(path)?), ..State::empty() };
        Ok(Arc::new(Outbox { keep: 0, state: Mutex::new(state) }))
    }

    /// Creates an outbox that keeps the newest `keep` captures, in memory and in a file in `directory`. Only the owner can read both,
    /// because messages contain personal data.
    ///
    /// # Errors
    /// A line other than the last is not a capture.
    pub fn in_directory(directory: &Path, keep: usize) -> io::Result<Arc<Self>> {
        file::claim_directory(directory)?;
        let (file, captures) = CaptureFile::open(&path_in(directory), keep)?;
        let mut state = State {
            bytes: captures.iter().map(|capture| capture.raw.len()).sum(),
            next_id: captures.back().map_or(1, |newest| newest.id + 1),
            captures: captures.into_iter().map(Arc::new).collect(),
            file: Some(file),
            accepted: None,
        };
        state.trim(keep);
        Ok(Arc::new(Outbox { keep, state: Mutex::new(state) }))
    }

    /// Reads the captures in `directory`, oldest first. Another process may be writing captures at the same time.
    ///
    /// # Errors
    /// The file does not exist, or a line other than the last is not a capture.
    pub fn read_directory(directory: &Path) -> io::Result<Vec<Capture>> {
        Ok(file::read(&path_in(directory), usize::MAX)?.captures.into())
    }

    /// Stores a message before it is confirmed. If this fails, the caller must not confirm the message.
    pub fn capture(&self, channel: &str, from: &str, to: &[String], raw: Vec<u8>) -> io::Result<()> {
        self.keep(channel, from, to, raw, Summary::default())
    }

    /// Stores a message that is not an RFC 5322 email, with a summary of it.
    pub fn keep(
        &self,
        channel: &str,
        from: &str,
        to: &[String],
        raw: Vec<u8>,
        summary: Summary,
    ) -> io::Result<()> {
        let mut state = self.lock();
        let capture = Arc::new(Capture {
            id: state.next_id,
            channel: channel.to_owned(),
            received_at: now(),
            from: from.to_owned(),
            to: to.to_vec(),
            raw,
            summary,
        });
        if let Some(file) = &mut state.file {
            file.append(&capture)?;
        }
        if let Some(accepted) = &mut state.accepted {
            accepted.append(&capture)?;
        }
        state.next_id += 1;
        state.bytes += capture.raw.len();
        state.captures.push_back(capture);
        state.trim(self.keep);
        state.compact(self.keep)
    }

    /// Number of messages that were ever captured, also if they are not kept.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lock().next_id - 1
    }

    /// Captures, newest first.
    #[must_use]
    pub fn captures(&self) -> Vec<Arc<Capture>> {
        self.lock().captures.iter().rev().cloned().collect()
    }

    pub fn clear(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.captures.clear();
        state.bytes = 0;
        match &mut state.file {
            Some(file) => file.rewrite(std::iter::empty()),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn empty() -> State {
        State { captures: VecDeque::new(), bytes: 0, next_id: 1, file: None, accepted: None }
    }

    fn trim(&mut self, keep: usize) {
        while self.captures.len() > keep || self.bytes > KEEP_BYTES {
            let Some(oldest) = self.captures.pop_front() else {
                return;
            };
            self.bytes -= oldest.raw.len();
        }
    }

    /// Rewrites the file if it has more than twice `keep` lines.
    fn compact(&mut self, keep: usize) -> io::Result<()> {
        match &mut self.file {
            Some(file) if file.lines() > keep.saturating_mul(2) => {
                file.rewrite(self.captures.iter().map(AsRef::as_ref))
            }
            _ => Ok(()),
        }
    }
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join("outbox.jsonl")
}

#[allow(clippy::disallowed_methods, reason = "the edge that takes a message reads the clock")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
