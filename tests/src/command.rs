//! Running programs of the workspace to completion, with the configuration of a system.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The program and the environment variables of a process.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(String, String)>,
    /// Directory with the programs of another release; None for those of this workspace.
    programs: Option<PathBuf>,
}

impl Environment {
    /// Returns a copy with the variables of `more` added. They replace variables of the same name.
    #[must_use]
    pub fn with<N: AsRef<str>, V: AsRef<str>>(&self, more: impl IntoIterator<Item = (N, V)>) -> Environment {
        let more =
            more.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
        let variables = self.variables.iter().cloned().chain(more).collect();
        Environment { variables, programs: self.programs.clone() }
    }

    /// Returns a copy for the programs in the directory `programs` or, for None, for those of this workspace.
    #[must_use]
    pub fn of_programs(&self, programs: Option<PathBuf>) -> Environment {
        Environment { programs, ..self.clone() }
    }

    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Path of the program `name`.
    pub fn program(&self, name: &str) -> PathBuf {
        match &self.programs {
            Some(programs) => testkit::binary_in(programs, name),
            None => testkit::binary(name),
        }
    }

    /// Creates a command that runs the program `name`.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        command.envs(self.pairs());
        command
    }

    /// Runs the program `name`, and returns its output even if it fails.
    pub fn run(&self, name: &str, arguments: &[&str]) -> Output {
        self.command(name).args(arguments).output().unwrap()
    }

    /// Runs `tidings`, and returns its standard output.
    ///
    /// # Panics
    /// The command fails.
    pub fn tidings(&self, arguments: &[&str]) -> String {
        self.tidings_with_input(arguments, "")
    }

    /// Like [`tidings`](Self::tidings), with standard input.
    pub fn tidings_with_input(&self, arguments: &[&str], input: &str) -> String {
        let mut command = self.command("tidings");
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Ignore a failure: a command that reads no input may end before the input is written.
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "tidings {arguments:?}: {}", ended.status);
        String::from_utf8(ended.stdout).unwrap()
    }
}
