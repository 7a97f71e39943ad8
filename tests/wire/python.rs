//! Calls of Python scripts.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

/// Passes a JSON value to `tests/wire/{script}` on standard input, and returns the JSON value from its standard output.
pub(crate) async fn ask(script: &str, question: &Value) -> Value {
    let mut child = Command::new(interpreter())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("wire").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let question = question.to_string();
    let telling = async move { input.write_all(question.as_bytes()).await };
    let both = async { tokio::join!(telling, child.wait_with_output()) };
    let (reported, output) = timeout(LIMIT, both).await.expect("the script takes too long");
    let output = output.unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && reported.is_ok(), "{script}: {says}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{script}: {error}: {says}"))
}

/// Path of the Python interpreter: `TIDINGS_TEST_PYTHON`, or that of the environment that `cargo xtask test` creates.
fn interpreter() -> PathBuf {
    if let Some(named) = std::env::var_os("TIDINGS_TEST_PYTHON").filter(|named| !named.is_empty()) {
        return named.into();
    }
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../wire/bin/python");
    assert!(
        python.exists(),
        "the Python packages of tests/wire/requirements.txt are missing: run `cargo xtask test --test wire` once"
    );
    python
}
