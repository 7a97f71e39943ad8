//! `docs/api.md` and `docs/admin-api.md`: all snippets run in order, in one shell with a running `tidings up`. Each must return the answer
//! that the guide shows.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.md");
const ADMIN_GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/admin-api.md");
/// Address of the console, and time of a preview, in the second guide.
const SHOWN: [&str; 2] = ["http://127.0.0.1:8090", "2027-01-31T09:00:00.000Z"];
/// The person and the parked emails of which the second guide speaks.
const PARKED: &str = "WITH shop AS (SELECT id FROM app WHERE name = 'shop'), people AS (
     INSERT INTO app_user (app_id, identifier) SELECT id, CASE n WHEN 1 THEN 'ada' ELSE 'user' || n END FROM shop, generate_series(1, 12) AS n
     RETURNING app_id, number
   ), made AS (
     INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, provider)
     SELECT app_id, gen_random_uuid(), '00000000-0000-7000-8000-000000000001', number, number, 'email', 'x@example.com', 'parked',
       'retries_exhausted', 'main' FROM people RETURNING app_id, id, send_id, user_number
   )
   INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause, parked_at)
   SELECT gen_random_uuid(), app_id, send_id, id, user_number, 'JOB_email_bulk', '', '535', now() - interval '1 minute' FROM made";
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
    let snippets = snippets(&std::fs::read_to_string(GUIDE).unwrap(), false);
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

#[tokio::test(flavor = "multi_thread")]
async fn every_snippet_of_the_guide_to_the_admin_api_succeeds() {
    let mut snippets = snippets(&std::fs::read_to_string(ADMIN_GUIDE).unwrap(), true);
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join(".tidings")).await;
    let console = running.dev("console").split("/welcome").next().unwrap().to_owned();
    let mut shell = Shell::start(&directory, &running);
    let (mut at, mut is_filled) = (None::<String>, false);
    for snippet in &mut snippets {
        if snippet.script.contains("/explain") && !is_filled {
            let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
            sqlx::raw_sql(PARKED).execute(&pool).await.unwrap();
            pool.close().await;
            is_filled = true;
        }
        snippet.script = snippet.script.replace(SHOWN[0], &console);
        if let Some(at) = &at {
            snippet.script = snippet.script.replace(SHOWN[1], at);
        }
        let output = snippet.run(&mut shell);
        let output =
            output.unwrap_or_else(|wrong| panic!("docs/admin-api.md, line {}: {wrong}", snippet.line));
        let answer: Value = serde_json::from_str(&output).unwrap_or_default();
        at = answer["at"].as_str().map(str::to_owned);
    }
    assert!(is_filled && snippets.len() >= 6, "{}", snippets.len());
    println!("{} snippets of docs/admin-api.md ran", snippets.len());
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

impl Snippet {
    /// Returns what the shell printed.
    fn run(&self, shell: &mut Shell) -> Result<String, String> {
        let (code, output) = shell.run(&self.script);
        let wrong = |why: &str| Err(format!("{why}\n{}\n{output}", self.script));
        match &self.answer {
            _ if code != 0 => wrong(&format!("exit code {code}")),
            None if output.contains(r#""status":"error""#) => wrong("the answer is an error"),
            None => Ok(output),
            Some(expected) => match serde_json::from_str(&output) {
                Ok(found) if matches(expected, &found) => Ok(output),
                Ok(_) => wrong(&format!("the guide shows {expected}, the answer is")),
                Err(error) => wrong(&format!("the answer is not JSON: {error}")),
            },
        }
    }
}

/// Lists the `sh` blocks, each with the `json` block that directly follows it. If `has_files` is true, other `json` blocks show files.
fn snippets(guide: &str, has_files: bool) -> Vec<Snippet> {
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
            "json" if has_files && !between.is_empty() => {}
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

    /// Runs lines, and returns the output with the exit code of the last command that failed, or zero.
    fn run(&mut self, script: &str) -> (i32, String) {
        let noted = format!("code=0; trap 'code=$?' ERR\n{{ {script}\n}} 2>&1\ntrap - ERR");
        writeln!(self.input, "{noted}; echo; echo \"{END_OF_SNIPPET}$code\"").unwrap();
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
