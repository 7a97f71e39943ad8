//! `docs/api.md`: all snippets run in order, in one shell with a running `tidings up`. Each returns the answer in the guide.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.md");
/// Beginning of a snippet that is repeated until it returns the expected answer.
const WAITS: &str = "# Once ";
const HAPPENS_WITHIN: Duration = Duration::from_secs(30);
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// Wildcard in an expected answer.
const ANYTHING: &str = "…";
const END_OF_SNIPPET: &str = "@@@ ended with ";

/// Lines of a `sh` block, and the answer if the guide shows it.
struct Snippet {
    line: usize,
    script: String,
    answer: Option<Value>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_snippet_of_the_guide_returns_the_answer_in_the_guide() {
    let snippets = snippets(&std::fs::read_to_string(GUIDE).unwrap());
    assert!(
        snippets.iter().filter(|snippet| snippet.answer.is_some()).count() >= 10,
        "the guide has no answers"
    );
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join(".tidings")).await;
    let mut shell = Shell::start(&directory, &running);
    for snippet in &snippets {
        if snippet.script.starts_with(WAITS) {
            let what = format!("line {}: {}", snippet.line, snippet.script);
            eventually(HAPPENS_WITHIN, &what, async || snippet.run(&mut shell).ok()).await;
        } else if let Err(reported) = snippet.run(&mut shell) {
            panic!("docs/api.md, line {}: {reported}\n{}", snippet.line, running.log());
        }
    }
    println!("{} snippets of docs/api.md ran", snippets.len());
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

impl Snippet {
    fn run(&self, shell: &mut Shell) -> Result<(), String> {
        let (code, output) = shell.run(&self.script);
        let wrong = |why: &str| Err(format!("{why}\n{}\n{output}", self.script));
        match &self.answer {
            _ if code != 0 => wrong(&format!("exit code {code}")),
            None if output.contains(r#""status":"error""#) => wrong("the answer is an error"),
            None => Ok(()),
            Some(expected) => match serde_json::from_str(&output) {
                Ok(found) if matches(expected, &found) => Ok(()),
                Ok(_) => wrong(&format!("the guide shows {expected}, the answer is")),
                Err(error) => wrong(&format!("the answer is not JSON: {error}")),
            },
        }
    }
}

/// Lists the `sh` blocks, each with the `json` block that directly follows it.
fn snippets(guide: &str) -> Vec<Snippet> {
    let mut snippets: Vec<Snippet> = Vec::new();
    let mut lines = (1..).zip(guide.lines());
    let mut between = String::new();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            between.push_str(line);
            continue;
        };
        let text: Vec<_> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let text = text.join("\n");
        match language {
            "sh" => snippets.push(Snippet { line: number, script: text, answer: None }),
            "json" => {
                assert!(between.is_empty(), "line {number}: an answer must directly follow its snippet");
                let answer =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("line {number}: {error}"));
                snippets.last_mut().unwrap().answer = Some(answer);
            }
            other => panic!("line {number}: the test does not run blocks of {other:?}"),
        }
        between.clear();
    }
    snippets
}

fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), found) if text == ANYTHING => {
            !matches!(found, Value::Array(_) | Value::Object(_))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| matches(expected, found))
        }
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .all(|(key, value)| found.get(key).is_some_and(|found| matches(value, found)))
        }
        (expected, found) => expected == found,
    }
}

/// A shell that keeps functions and variables between snippets.
struct Shell {
    process: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Shell {
    fn start(directory: &Directory, running: &RunningProcess) -> Shell {
        let programs = testkit::binary("tidings");
        let programs = programs.parent().map(Path::display).unwrap();
        let mut process = Command::new("bash")
            .args(["-o", "pipefail"])
            .current_dir(directory.path())
            .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
            .env("API", running.dev("api"))
            .env("KEY", running.dev("apiKey"))
            .env("SECRET", running.dev("apiSecret"))
            .env("OUTBOX", running.dev("outbox"))
            .env_remove("DATABASE_URL")
            .env_remove("NATS_URL")
            .env_remove("TIDINGS_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, lines) =
            (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()).lines());
        let (sender, output) = channel();
        // The thread ends when the shell closes its output.
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Shell { process, input, output }
    }

    /// Runs lines, and returns the exit code of the last command with the output of all of them.
    fn run(&mut self, script: &str) -> (i32, String) {
        writeln!(self.input, "{{ {script}\n}} 2>&1\ncode=$?; echo; echo \"{END_OF_SNIPPET}$code\"").unwrap();
        let mut output = Vec::new();
        loop {
            let line = self.output.recv_timeout(ANSWERED_WITHIN);
            let line = line.unwrap_or_else(|error| panic!("{error}: {script}\n{}", output.join("\n")));
            match line.strip_prefix(END_OF_SNIPPET) {
                Some(code) => return (code.parse().unwrap(), output.join("\n").trim().to_owned()),
                None => output.push(line),
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).ok();
    }
}
