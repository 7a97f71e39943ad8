use std::time::Instant;

use clap::Subcommand;
use inbox::{Rebuild, RebuildReport, UnreachableStart, Verification};
use serde_json::{Value, json};

use crate::comparing::Comparison;
use crate::print::print;
use crate::progress::Progress;
use crate::verify::by_stream;
use crate::{DONE, FAILED, UNUSABLE, differences};

/// Rebuild a projection from the log.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings rebuild inbox")]
pub(crate) enum Command {
    Inbox(Arguments),
}

/// Rebuild the inbox in new tables, and replace the live tables with them.
///
/// Replays the log into new tables. Compares the rows, checksums and counters of every user with the live tables at the
/// same position of the log. If they are equal, replaces the live tables in one transaction. If they differ, prints the
/// differences and drops the new tables, unless --accept-differences is given. Services keep running; while the tables
/// are replaced, reading and changing inboxes is delayed for a moment. If the command is interrupted, run it again: it starts
/// from the beginning of the log. The new tables need as much disk space as the inbox.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings rebuild inbox
  tidings rebuild inbox --accept-differences
  tidings rebuild inbox --json --show 100

Exit codes:
  0  the new tables are live
  1  not switched: the tables differ, or a server failed
  2  not switched: the log no longer contains its first messages

With --json: {\"switched\", \"users\", \"items\", \"differences\", \"shown\", \"beingErased\", \"positions\", \"seconds\"} as in
`tidings verify --help`; if it fails, {\"switched\": false, \"cause\"}.")]
pub(crate) struct Arguments {
    /// Replace the live tables even if the new tables differ: the log is the source of truth
    #[arg(long)]
    accept_differences: bool,
    #[command(flatten)]
    comparing: Comparison,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    let began = Instant::now();
    match rebuild(arguments).await {
        Ok(rebuilt) => {
            let text = if arguments.comparing.json {
                let mut report = report(&rebuilt);
                report["seconds"] = json!(began.elapsed().as_secs_f64());
                format!("{report}\n")
            } else {
                render(&rebuilt)
            };
            print(&text)?;
            Ok(if rebuilt.is_switched { DONE } else { FAILED })
        }
        Err(error) => {
            if arguments.comparing.json {
                let cause = format!("{error:#}");
                print(&format!("{}\n", json!({"switched": false, "cause": cause})))?;
            }
            if error.is::<UnreachableStart>() {
                eprintln!("tidings: {error:#}");
                return Ok(UNUSABLE);
            }
            Err(error)
        }
    }
}

async fn rebuild(arguments: &Arguments) -> anyhow::Result<RebuildReport> {
    let installed = arguments.comparing.open().await?;
    let progress = Progress::new();
    let rebuild = Rebuild {
        database: &installed.database,
        log: &installed.log,
        partitions: installed.partitions,
        accepts_differences: arguments.accept_differences,
        most: arguments.comparing.most(),
    };
    rebuild.run(&|step| progress.report(step)).await
}

fn report(rebuilt: &RebuildReport) -> Value {
    let Verification { comparison, positions } = &rebuilt.verification;
    json!({
        "switched": rebuilt.is_switched,
        "users": comparison.users,
        "items": comparison.items,
        "differences": comparison.differing,
        "shown": differences::as_json(&comparison.shown),
        "beingErased": comparison.leaving,
        "positions": by_stream(positions),
    })
}

fn render(rebuilt: &RebuildReport) -> String {
    let comparison = &rebuilt.verification.comparison;
    let (users, items, differing) = (comparison.users, comparison.items, comparison.differing);
    let found = match differing {
        0 => format!("The new tables equal the old ones: {items} items of {users} users.\n"),
        _ => {
            let details = differences::describe(comparison);
            format!("The inboxes of {differing} of {users} users differ from the old ones:\n{details}")
        }
    };
    if rebuilt.is_switched {
        format!("The inbox is rebuilt: its new tables are live, and the old ones are dropped.\n{found}")
    } else {
        format!(
            "Nothing was switched.\n{found}To replace the old tables nevertheless: tidings rebuild inbox --accept-differences\n"
        )
    }
}
