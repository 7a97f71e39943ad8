use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use local_servers::process::{Process, Start};

/// Names of links to `tidings` through which it runs that service.
pub const SERVICES: [&str; 9] = [
    "tidings-gateway",
    "tidings-dispatcher",
    "tidings-inbox",
    "tidings-email",
    "tidings-web-push",
    "tidings-mobile-push",
    "tidings-sms",
    "tidings-webhooks",
    "tidings-console",
];

/// Program in the profile of the running test. For a name in [`SERVICES`], a link to `tidings`.
///
/// # Panics
/// Panics if the program has not been built.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn binary(name: &str) -> PathBuf {
    match find(name) {
        Ok(path) => path,
        Err(error) => panic!("{error:#}"),
    }
}

/// Program from `profile`, the directory of a profile in the target directory of another checkout.
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

/// Creates the link in a folder that cargo does not clean up.
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

/// A program that is killed when this value is dropped or this process ends.
#[derive(Debug)]
pub struct Service {
    start: Start,
    process: Process,
    _files: Option<TempDir>,
}

impl Service {
    /// Starts a program, with `environment` in addition to the variables of this process.
    pub fn start(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_program(&find(name)?, arguments, environment)
    }

    /// Starts a program, with `environment` in addition to the variables of this process.
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

    /// Starts a program whose log file `log` is not removed.
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

    /// File with standard output and standard error of all runs.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.ended()?.is_none())
    }

    /// None while the process runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.process.ended()
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGSTOP: connections stay open, but the process does nothing until [`resume`](Self::resume).
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process.pause()
    }

    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process.resume()
    }

    /// Sends SIGTERM, so that a service finishes its work in progress.
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)
    }

    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.restart_with(&[])
    }

    /// Restarts with variables that apply to this run only.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) -> anyhow::Result<()> {
        self.process.kill();
        let mut start = self.start.clone();
        start
            .environment
            .extend(environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.process = Process::start(&start)?;
        Ok(())
    }

    pub fn words(&self) -> String {
        self.process.words()
    }

    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}
