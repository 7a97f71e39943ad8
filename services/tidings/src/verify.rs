use std::time::Instant;

use domain::StreamName;
use inbox::Verification;
use serde_json::{Map, Value, json};

use crate::comparing::Comparison;
use crate::control_plane::Backup;
use crate::print::print;
use crate::progress::Progress;
use crate::{DONE, FAILED, UNUSABLE, differences};

/// Compare the inbox with a replay of the log.
///
/// Replays the log into separate tables. Compares the rows, checksums and counters of every user with the live tables
/// at the same position of the log, and then drops the separate tables. Services keep running, and their data does not
/// change. The command needs as much disk space as the inbox. It skips users whose erasure is in progress.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings verify
  tidings verify --json --show 100
  tidings verify --backup postgres://tidings@db/restored

Exit codes:
  0  equal
  1  different: the output names users, items and columns, never their values
  2  unknown: a server cannot be reached, the log no longer contains its first messages and no suitable backup is given,
     or another `tidings verify` is running

With --json: {\"equal\", \"users\", \"items\", \"differences\" (number of users that differ), \"shown\" (the first of them),
\"beingErased\", \"positions\" (stream: sequence), \"seconds\"}; if the result is unknown, {\"equal\": null, \"cause\"}.

`tidings rebuild inbox` repairs differences.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    comparing: Comparison,
    #[command(flatten)]
    backup: Backup,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    let began = Instant::now();
    match verify(arguments).await {
        Ok(verification) => {
            let is_equal = verification.comparison.differing == 0;
            print(&if arguments.comparing.json {
                let mut report = report(&verification);
                report["seconds"] = json!(began.elapsed().as_secs_f64());
                format!("{report}\n")
            } else {
                render(&verification)
            })?;
            Ok(if is_equal { DONE } else { FAILED })
        }
        Err(error) => {
            if arguments.comparing.json {
                let cause = format!("{error:#}");
                print(&format!("{}\n", json!({"equal": null, "cause": cause})))?;
            }
            eprintln!("tidings: {error:#}");
            Ok(UNUSABLE)
        }
    }
}

async fn verify(arguments: &Arguments) -> anyhow::Result<Verification> {
    let installed = arguments.comparing.open().await?;
    let backup = arguments.backup.open().await?;
    let progress = Progress::new();
    let most = arguments.comparing.most();
    inbox::verify(&installed.database, &installed.log, backup.as_ref(), installed.partitions, most, &|step| {
        progress.report(step);
    })
    .await
}

fn report(Verification { comparison, positions }: &Verification) -> Value {
    json!({
        "equal": comparison.differing == 0,
        "users": comparison.users,
        "items": comparison.items,
        "differences": comparison.differing,
        "shown": differences::as_json(&comparison.shown),
        "beingErased": comparison.leaving,
        "positions": by_stream(positions),
    })
}

pub(crate) fn by_stream(positions: &[u64]) -> Value {
    let named = (0..).zip(positions).map(|(number, seq)| (StreamName::Inbox(number).to_string(), json!(seq)));
    Value::Object(named.collect::<Map<_, _>>())
}

fn render(Verification { comparison, .. }: &Verification) -> String {
    let (users, items) = (comparison.users, comparison.items);
    let mut text = if comparison.differing == 0 {
        format!("Equal: {items} items of {users} users match the log.\n")
    } else {
        let differing = comparison.differing;
        format!(
            "Different: the inboxes of {differing} of {users} users do not match the log.\n{}",
            differences::describe(comparison)
        )
    };
    if comparison.leaving > 0 {
        text += &format!("Skipped: {} users whose erasure is in progress.\n", comparison.leaving);
    }
    text
}
