//! A private working directory in which tests run `tidings`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Environment variables that would change the configuration of the test.
const NOT_INHERITED: [&str; 6] = [
    "DATABASE_URL",
    "NATS_URL",
    "TIDINGS_CONFIG",
    "TIDINGS_SECURITY__MASTER_KEY_FILE",
    "TIDINGS_URL",
    "TIDINGS_TOKEN",
];

/// An empty directory, which is removed when this value is dropped.
pub(crate) struct Directory {
    files: tempfile::TempDir,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Answer {
    /// Parses the standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.errors);
        serde_json::from_str(&self.output).unwrap()
    }
}

impl Directory {
    pub(crate) fn new() -> Self {
        Directory { files: tempfile::Builder::new().prefix("tidings-e2e-").tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.files.path()
    }

    /// Runs `tidings` without any configuration.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with(arguments, &[], "")
    }

    /// Runs `tidings` with these variables and this standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Answer {
        let mut command = Command::new(testkit::binary("tidings"));
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Ignore a failure: a command that reads no input may end before the input is written.
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        let ended = child.wait_with_output().unwrap();
        Answer {
            code: ended.status.code().expect("no signal ends a command"),
            output: String::from_utf8(ended.stdout).unwrap(),
            errors: String::from_utf8(ended.stderr).unwrap(),
        }
    }
}
