//! The workspace's own programs, as child processes of a test.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use local_servers::process::{Process, Start};

/// Names under which `tidings` is a service.
pub const SERVICES: [&str; 8] = [
    "tidings-gateway",
    "tidings-dispatcher",
    "tidings-inbox",
    "tidings-email",
    "tidings-web-push",
    "tidings-mobile-push",
    "tidings-sms",
    "tidings-webhooks",
];

/// The workspace program `name`, as last built in the profile of the running test; for `tidings-gateway` and the other services a
/// link to `tidings`, which runs the service that it is called by.
///
/// # Panics
/// If it has not been built; the message says how.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn binary(name: &str) -> PathBuf {
    match find(name) {
        Ok(path) => path,
        Err(error) => panic!("{error:#}"),
    }
}

fn find(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("the path of this test")?;
    // target/debug/deps/test-0123, or target/debug/program.
    let profile = test.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let profile = profile.context("a test inside a target directory")?;
    let program = profile.join(if SERVICES.contains(&name) { "tidings" } else { name });
    ensure!(
        program.is_file(),
        "{} is not built: run `cargo build --workspace --bins --tests` first",
        program.display()
    );
    if SERVICES.contains(&name) { link(profile, name) } else { Ok(program) }
}

/// The link `name` to the program, beside it in a folder that cargo does not clean up.
fn link(profile: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = profile.join("links");
    std::fs::create_dir_all(&folder)?;
    let link = folder.join(name);
    match std::os::unix::fs::symlink("../tidings", &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot make the link {}", link.display()))
        }
        _ => Ok(link),
    }
}

/// A running program of the workspace. Dropping it kills it, as does the end of our process.
#[derive(Debug)]
pub struct Service {
    start: Start,
    process: Process,
    _files: Option<TempDir>,
}

impl Service {
    /// Starts [`binary`]`(name)` with `arguments`, and `environment` beside our own.
    pub fn start(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_program(&find(name)?, arguments, environment)
    }

    /// Starts any program with `arguments`, and `environment` beside our own.
    pub fn start_program(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tidings-service-").tempdir()?;
        let name = program.file_name().context("a program has a name")?.display();
        let log = files.path().join(format!("{name}.log"));
        let service = Self::start_logged(program, arguments, environment, &log)?;
        Ok(Self { _files: Some(files), ..service })
    }

    /// As [`start_program`](Self::start_program), with a log at a place of the caller's, which outlives it.
    pub fn start_logged(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let mut start = Start::new(program, log);
        start.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        start.environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let process = Process::start(&start)?;
        Ok(Self { start, process, _files: None })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Standard output and standard error so far, over all restarts.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Returns true while the process runs.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.ended()?.is_none())
    }

    /// Exit status, or `None` while it runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.process.ended()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGSTOP: it keeps its connections and does nothing, until [`resume`](Self::resume).
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process.pause()
    }

    /// SIGCONT, after [`pause`](Self::pause).
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process.resume()
    }

    /// SIGTERM, which a service takes as "finish and stop".
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)
    }

    /// Kills it if it runs, and starts it again as it was started first.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.restart_with(&[])
    }

    /// As [`restart`](Self::restart), with more in its environment, this once.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) -> anyhow::Result<()> {
        self.process.kill();
        let mut start = self.start.clone();
        start
            .environment
            .extend(environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.process = Process::start(&start)?;
        Ok(())
    }

    /// Log output since its last start.
    pub fn words(&self) -> String {
        self.process.words()
    }

    /// The last lines that it wrote since then, for an error message.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}
