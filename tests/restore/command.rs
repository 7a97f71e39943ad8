//! The command-line tool, as operators use it.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `tidings`, and returns what it printed.
pub(crate) fn tidings(environment: &[(&str, &str)], arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(testkit::binary("tidings"))
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that wants no input may have ended before it is written.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "tidings {arguments:?}: {}", ended.status);
    String::from_utf8(ended.stdout).unwrap()
}
