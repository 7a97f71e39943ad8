//! A child process that ends with this process, even if this process is killed.

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

/// Shell script that starts a watcher in the same process group and then replaces itself with the program. The watcher reads a
/// pipe from this process. When this process ends in any way, including kill -9, the kernel closes the pipe and the watcher kills
/// the group. (`PR_SET_PDEATHSIG` is no alternative: it kills the child when the *thread* that spawned the child ends.) The
/// script receives a directory as standard output and moves it to descriptor 9, see [`Start::directory`].
const GUARD: &str = r#"
exec 3<&0 9<&1 1>&2
(read -r _ <&3; kill -KILL "-$$") 9<&- &
exec "$@" </dev/null 3<&-
"#;

/// Size in bytes. A larger file is emptied at the next start.
const LONGEST_LOG: u64 = 16 * 1024 * 1024;
const QUOTED_LINES: usize = 12;

#[derive(Debug, Clone)]
pub struct Start {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Variables in addition to those of this process.
    pub environment: Vec<(String, String)>,
    pub log: PathBuf,
    /// None means the account of this process.
    pub(crate) account: Option<OsAccount>,
    /// Open directory that the program inherits as descriptor 9.
    pub(crate) directory: Option<Arc<File>>,
}

impl Start {
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

    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }
}

/// A process group that is killed when this value is dropped or this process ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    log: PathBuf,
    log_from: u64,
    killed: bool,
    _lifeline: ChildStdin,
}

impl Process {
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
            // If this process runs as root, `uid` also drops the supplementary groups. Change to `/`, because the account may not
            // have access to the working directory of this process.
            command.uid(account.uid).gid(account.gid).current_dir("/");
        }
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", start.program.display()))?;
        let group = Pid::from_child(&child);
        let lifeline = child.stdin.take().context("the child process has no piped standard input")?;
        Ok(Self { child, group, log: start.log.clone(), log_from, killed: false, _lifeline: lifeline })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// None while the program runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_none() {
            rustix::process::kill_process(self.group, signal)?;
        }
        Ok(())
    }

    /// Returns when all of its threads have stopped.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        rustix::process::kill_process(self.group, Signal::STOP)?;
        // With NOWAIT, `Child` can still read the exit status if the program has ended instead of stopping.
        let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.group), states)?;
        Ok(())
    }

    /// Pauses the program as [`pause`](Self::pause) does, and then its direct child processes.
    pub fn pause_with_children(&mut self) -> anyhow::Result<()> {
        self.pause()?;
        // The program is paused, so it starts no further child processes.
        for child in children_of(self.group) {
            rustix::process::kill_process(child, Signal::STOP)?;
        }
        Ok(())
    }

    pub fn resume_with_children(&mut self) -> anyhow::Result<()> {
        for child in children_of(self.group) {
            rustix::process::kill_process(child, Signal::CONT)?;
        }
        self.resume()
    }

    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Returns true if the kill was not necessary.
    pub async fn stop(mut self, signal: Signal, limit: Duration) -> anyhow::Result<bool> {
        self.signal(signal)?;
        let ended = within(limit, async || match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => Some(()),
        });
        Ok(ended.await.is_some())
    }

    /// Kills the process group, and direct child processes of the program in other groups. Returns when the program has ended.
    pub fn kill(&mut self) {
        // Kill the group only once. The watcher keeps the group's id reserved until the first kill. Later, the id may belong to
        // another group.
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

    /// Output without that of earlier processes in the same log.
    pub fn words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(self.log_from).unwrap_or(usize::MAX);
        String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned()
    }

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
