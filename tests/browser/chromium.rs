//! Chromium, controlled over the DevTools protocol. The protocol uses two pipes, so that no port is opened.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Chromium's error for a script whose page was left.
const LEFT: &str = "Inspected target navigated or closed";
/// Time limit for one answer.
const LIMIT: Duration = Duration::from_secs(30);
/// Shell script that starts Chromium, which reads commands from descriptor 3 and writes answers to descriptor 4.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#;
const ARGUMENTS: [&str; 11] = [
    "--headless",
    // If the user is root, Chromium starts only without its sandbox. This is safe here, because it loads only pages of this test.
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    // A mouse, which the machine of a test may lack: pages show on hover what they would otherwise always show.
    "--blink-settings=availableHoverTypes=2,primaryHoverType=2,availablePointerTypes=4,primaryPointerType=4",
    // Restricts Chromium to this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A running Chromium with a new profile. It ends when this value is dropped, or when the test process ends and the pipes close.
pub(crate) struct Chromium {
    _child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Events that arrived before the answer to a call, oldest first.
    events: Vec<Value>,
    last_id: u64,
    _profile: TempDir,
}

impl Chromium {
    pub(crate) async fn start() -> Chromium {
        let program = local_servers::installed::chromium().unwrap_or_else(|missing| panic!("{missing:#}"));
        let profile = tempfile::Builder::new().prefix("tidings-chromium-").tempdir().unwrap();
        let log = std::fs::File::create(profile.path().join("chromium.log")).unwrap();
        let mut child = Command::new("/bin/sh")
            .args(["-c", PIPES])
            .arg(program)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut chromium =
            Chromium { _child: child, commands, answers, events: Vec::new(), last_id: 0, _profile: profile };
        chromium.call("Browser.getVersion", json!({}), None).await;
        chromium
    }

    /// Calls a method of the protocol, and returns the result. The call goes to the target of `session`, or to the browser itself
    /// if `session` is None.
    pub(crate) async fn call(&mut self, method: &str, params: Value, session: Option<&str>) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).await.unwrap();
        loop {
            let message = self.read(method).await;
            if message["id"] == id {
                let is_left = method == "Runtime.evaluate" && message["error"]["message"] == LEFT;
                assert!(is_left || message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Returns the first event for which `fits` is true: one that has already arrived, or a later one.
    pub(crate) async fn event(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(known) = self.events.iter().position(&fits) {
            return self.events.remove(known);
        }
        loop {
            let event = self.read(what).await;
            if fits(&event) {
                return event;
            }
            self.events.push(event);
        }
    }

    /// Attaches to a target and returns the session.
    pub(crate) async fn attach(&mut self, target: &str) -> String {
        let attached =
            self.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}), None).await;
        attached["sessionId"].as_str().unwrap().to_owned()
    }

    /// Evaluates a script, awaits its promise, and returns the value: null if the window leaves the page meanwhile.
    pub(crate) async fn evaluate(&mut self, session: &str, script: &str) -> Value {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let result = self.call("Runtime.evaluate", params, Some(session)).await;
        assert!(result.get("exceptionDetails").is_none(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    async fn read(&mut self, what: &str) -> Value {
        let mut message = Vec::new();
        let read = timeout(LIMIT, self.answers.read_until(0, &mut message)).await;
        let length = read.unwrap_or_else(|_| panic!("Chromium does not answer: {what}")).unwrap();
        assert!(length > 0, "Chromium has ended: {what}");
        message.pop();
        serde_json::from_slice(&message).unwrap()
    }
}
