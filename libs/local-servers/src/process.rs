//! A child process that cannot outlive us.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use crate::os_account::OsAccount;
use crate::waiting::within;

/// Runs in place of the program until it becomes the program: it leaves a watcher behind in the same process group,
/// which reads a pipe that we hold. The kernel closes the pipe however we end, kill -9 included, and the watcher then
/// kills the group. (`PR_SET_PDEATHSIG` would do the same only for as long as the *thread* that spawned lives.)
/// Descriptor 9 is the directory that was handed over as standard output, see [`Start::directory`].
const GUARD: &str = r#"
exec 3<&0 9<&1 1>&2
(read -r _ <&3; kill -KILL "-$$") 9<&- &
exec "$@" </dev/null 3<&-
"#;

/// Log files above this size are emptied at the next start.
const LONGEST_LOG: u64 = 16 * 1024 * 1024;
/// Bytes of a log that an error message quotes.
const QUOTED_LINES: usize = 12;

/// Program to start, with its arguments and environment.
#[derive(Debug, Clone)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables to set in its environment, beside ours.
    pub environment: Vec<(String, String)>,
    /// File to which its output is appended.
    pub log: PathBuf,
    /// The account it runs as, where that is not ours.
    pub(crate) account: Option<OsAccount>,
    /// An open directory that it inherits as descriptor 9.
    pub(crate) directory: Option<Arc<File>>,
}

impl Start {
    /// `program` under our own account, with its output appended to `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            log: log.into(),
            account: None,
            directory: None,
        }
    }

    /// Adds one argument.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }
}

/// A running child in a process group of its own. Dropping it kills the group; so does the end of our own process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    log: PathBuf,
    /// Offset in the log at which this process started.
    log_from: u64,
    killed: bool,
    _lifeline: ChildStdin,
}

impl Process {
    /// Starts it. The process id is that of the program itself.
    pub fn start(start: &Start) -> anyhow::Result<Self> {
        let log = open_log(&start.log).with_context(|| format!("cannot write {}", start.log.display()))?;
        let log_from = log.metadata()?.len();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GUARD, "tidings-guard"].map(OsStr::new))
            .arg(&start.program)
            .args(&start.arguments)
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::piped())
            .stderr(log)
            .stdout(match &start.directory {
                Some(directory) => Stdio::from(directory.try_clone()?),
                None => Stdio::null(),
            });
        if let Some(account) = &start.account {
            // Run by root, this also drops the supplementary groups. Our working directory may be closed to it.
            command.uid(account.uid).gid(account.gid).current_dir("/");
        }
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", start.program.display()))?;
        let group = Pid::from_child(&child);
        let lifeline = child.stdin.take().context("a piped standard input")?;
        Ok(Self { child, group, log: start.log.clone(), log_from, killed: false, _lifeline: lifeline })
    }

    /// The process id of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file that its output goes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Exit status, or `None` while it runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Sends a signal to the program alone, unless it has ended.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_none() {
            rustix::process::kill_process(self.group, signal)?;
        }
        Ok(())
    }

    /// Stops it where it is, with SIGSTOP, unless it has ended. Returns once all of its threads stand still.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        rustix::process::kill_process(self.group, Signal::STOP)?;
        // Left in place, so that `Child` still sees the end of one that died instead.
        let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.group), states)?;
        Ok(())
    }

    /// As [`pause`](Self::pause), with what the program itself started.
    pub fn pause_with_children(&mut self) -> anyhow::Result<()> {
        self.pause()?;
        // It stands still, so that no further children come.
        for child in children_of(self.group) {
            rustix::process::kill_process(child, Signal::STOP)?;
        }
        Ok(())
    }

    /// Lets it go on after [`pause_with_children`](Self::pause_with_children).
    pub fn resume_with_children(&mut self) -> anyhow::Result<()> {
        for child in children_of(self.group) {
            rustix::process::kill_process(child, Signal::CONT)?;
        }
        self.resume()
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end with `signal`, and kills it if it has not within `limit`. True when it went by itself.
    pub async fn stop(mut self, signal: Signal, limit: Duration) -> anyhow::Result<bool> {
        self.signal(signal)?;
        let ended = within(limit, async || match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => Some(()),
        });
        Ok(ended.await.is_some())
    }

    /// SIGKILL to the whole group, and to what the program itself put into groups of their own. Returns when the
    /// program is gone.
    pub fn kill(&mut self) {
        // Until here the watcher keeps the group's number from being used again; afterwards nothing does.
        if std::mem::replace(&mut self.killed, true) {
            return;
        }
        let children = children_of(self.group);
        // An error means that no process is left to kill.
        rustix::process::kill_process_group(self.group, Signal::KILL).ok();
        self.child.wait().ok();
        for child in children {
            rustix::process::kill_process(child, Signal::KILL).ok();
        }
    }

    /// Output so far, without that of earlier processes in the same log.
    pub fn words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(self.log_from).unwrap_or(usize::MAX);
        String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned()
    }

    /// The last lines that it wrote, for an error message.
    pub fn last_words(&self) -> String {
        let words = self.words();
        let mut lines: Vec<&str> = words.lines().rev().take(QUOTED_LINES).collect();
        lines.reverse();
        format!("its log, {}, ends with:\n{}", self.log.display(), lines.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn open_log(path: &Path) -> std::io::Result<File> {
    let full = path.metadata().is_ok_and(|log| log.len() > LONGEST_LOG);
    if full {
        File::create(path)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// The direct children of a process: from `/proc`, else as `ps` tells them.
fn children_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get();
    let listed =
        std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_else(|_| {
            let listing = Command::new("ps").args(["-A", "-o", "ppid=,pid="]).stderr(Stdio::null()).output();
            let listing = listing.map(|output| output.stdout).unwrap_or_default();
            String::from_utf8_lossy(&listing)
                .lines()
                .filter_map(|line| line.trim().split_once(char::is_whitespace))
                .filter(|(its_parent, _)| *its_parent == parent.to_string())
                .map(|(_, child)| format!("{child} "))
                .collect()
        });
    listed.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}
