//! The programs of this workspace as child processes of a test.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use local_servers::process::{Process, Start};

/// Names of the services. If `tidings` is started through a link with one of these names, it runs that service.
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

/// Returns the path of the program `name`, built in the same profile as the running test. For a name in [`SERVICES`], the path is
/// a link to `tidings`.
///
/// # Panics
/// Panics if the program has not been built. The message contains the command that builds it.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn binary(name: &str) -> PathBuf {
    match find(name) {
        Ok(path) => path,
        Err(error) => panic!("{error:#}"),
    }
}

/// Returns the path of the program `name` like [`binary`], but from `profile`, the directory of a profile in the target directory of
/// another checkout.
///
/// # Panics
/// Panics if the directory does not contain the program.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn binary_in(profile: &Path, name: &str) -> PathBuf {
    match find_in(profile, name) {
        Ok(path) => path,
        Err(error) => panic!("{error:#}"),
    }
}

fn find(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("cannot find the path of this test")?;
    // The path of the running test is target/debug/deps/test-0123 or target/debug/program.
    let profile = test.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    find_in(profile.context("this test is not in a target directory")?, name)
}

fn find_in(profile: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let program = profile.join(if SERVICES.contains(&name) { "tidings" } else { name });
    ensure!(
        program.is_file(),
        "{} is not built: run `cargo build --workspace --bins --tests` first",
        program.display()
    );
    if SERVICES.contains(&name) { link(profile, name) } else { Ok(program) }
}

/// Creates the link `name` to `tidings` in a separate folder of the profile's directory, which cargo does not clean up.
fn link(profile: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = profile.join("links");
    std::fs::create_dir_all(&folder)?;
    let link = folder.join(name);
    match std::os::unix::fs::symlink("../tidings", &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot create the link {}", link.display()))
        }
        _ => Ok(link),
    }
}

/// A running program of the workspace. It is killed when this value is dropped or this process ends.
#[derive(Debug)]
pub struct Service {
    start: Start,
    process: Process,
    _files: Option<TempDir>,
}

impl Service {
    /// Starts [`binary`]`(name)` with `arguments`, and with `environment` in addition to the variables of this process.
    pub fn start(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_program(&find(name)?, arguments, environment)
    }

    /// Starts any program with `arguments`, and with `environment` in addition to the variables of this process.
    pub fn start_program(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tidings-service-").tempdir()?;
        let name = program.file_name().context("the program's path has no file name")?.display();
        let log = files.path().join(format!("{name}.log"));
        let service = Self::start_logged(program, arguments, environment, &log)?;
        Ok(Self { _files: Some(files), ..service })
    }

    /// Starts a program as [`start_program`](Self::start_program) does, but with the log file `log`, which is not removed.
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

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Path of the log file, which contains standard output and standard error of all runs.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Returns true while the process runs.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.ended()?.is_none())
    }

    /// Returns the exit status; None while the process runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.process.ended()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Pauses the process with SIGSTOP. Its connections stay open, but it does nothing until [`resume`](Self::resume) is called.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process.pause()
    }

    /// Continues a paused process with SIGCONT.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process.resume()
    }

    /// Sends SIGTERM, after which a service finishes its work in progress and ends.
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)
    }

    /// Kills the process if it is running, and starts it again with the original arguments and environment.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.restart_with(&[])
    }

    /// Restarts the process as [`restart`](Self::restart) does, with additional environment variables for this run only.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) -> anyhow::Result<()> {
        self.process.kill();
        let mut start = self.start.clone();
        start
            .environment
            .extend(environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.process = Process::start(&start)?;
        Ok(())
    }

    /// Returns the output since the last start.
    pub fn words(&self) -> String {
        self.process.words()
    }

    /// Returns a text for an error message, with the last 12 lines of the output since the last start.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}
