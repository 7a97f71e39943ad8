//! `tidings verify`: whether the inbox is what the log says.

use std::time::Instant;

use domain::StreamName;
use inbox::Verification;
use serde_json::{Map, Value, json};

use crate::comparing::Comparing;
use crate::progress::Progress;
use crate::{DONE, FAILED, UNUSABLE, command, differences};

/// Compare the inbox with a replay of the log.
///
/// Replays the log into tables of its own, compares rows, checksums and counters of every user with the live ones as
/// they were at one moment, and drops them again. Services go on meanwhile, and nothing of theirs is changed. It takes
/// as much room as the inbox has. Users who are being erased are left out until that is done.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings verify
  tidings verify --json --show 100
  tidings verify --backup postgres://tidings@db/restored

Exit codes:
  0  equal
  1  different: told are the users, the items and the columns, never their values
  2  cannot tell: a server cannot be reached, log and backup do not reach back far enough, or another
     `tidings verify` is under way

With --json: {\"equal\", \"users\", \"items\", \"differences\" (users that differ, all of them), \"shown\" (the first of them),
\"beingErased\", \"positions\" (stream: sequence), \"seconds\"}; where it cannot tell, {\"equal\": null, \"cause\"}.

What differs, `tidings rebuild inbox` mends.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    comparing: Comparing,
}

/// Verifies, prints what came of it, and returns the exit code.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    let began = Instant::now();
    match verify(arguments).await {
        Ok(verification) => {
            let is_equal = verification.comparison.differing == 0;
            command::print(&if arguments.comparing.json {
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
                command::print(&format!("{}\n", json!({"equal": null, "cause": cause})))?;
            }
            eprintln!("tidings: {error:#}");
            Ok(UNUSABLE)
        }
    }
}

async fn verify(arguments: &Arguments) -> anyhow::Result<Verification> {
    let (installed, backup) = arguments.comparing.open().await?;
    let progress = Progress::new();
    let most = arguments.comparing.most();
    inbox::verify(&installed.database, &installed.log, backup.as_ref(), installed.partitions, most, &|step| {
        progress.tell(step);
    })
    .await
}

/// What scripts get.
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

/// Positions by the names of their streams.
pub(crate) fn by_stream(positions: &[u64]) -> Value {
    let named = (0..).zip(positions).map(|(number, seq)| (StreamName::Inbox(number).to_string(), json!(seq)));
    Value::Object(named.collect::<Map<_, _>>())
}

/// What people get.
fn render(Verification { comparison, .. }: &Verification) -> String {
    let (users, items) = (comparison.users, comparison.items);
    let mut text = if comparison.differing == 0 {
        format!("Equal: {items} items of {users} users are what the log says.\n")
    } else {
        let differing = comparison.differing;
        format!(
            "Different: the inboxes of {differing} of {users} users are not what the log says.\n{}",
            differences::describe(comparison)
        )
    };
    if comparison.leaving > 0 {
        text += &format!("Left out: {} users who are being erased.\n", comparison.leaving);
    }
    text
}
