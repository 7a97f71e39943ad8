use domain::SendId;
use operations::requests;
use serde_json::json;

use crate::admin_api::Changed;
use crate::options::AppArguments;
use crate::place::Place;
use crate::refused::OrMissing as _;

/// Cancel a send: its deliveries that no provider has received yet are not made.
///
/// Messages that a provider has received, and items in inboxes, stay. A send that was cancelled or has ended does not change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings cancel shop 0197b5a2-7c1e-7000-8000-5b1d2f6c9a30

Exit codes:
  0  the send is cancelled, or nothing of it was left to cancel
  1  the app has no such send, or a server cannot be reached
  2  the command line or the configuration is not valid")]
pub(crate) struct Arguments {
    #[command(flatten)]
    app: AppArguments,
    /// Id of the send, as `tidings sends` shows it
    request: uuid::Uuid,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (place, app) = arguments.app.open().await?;
    let send = SendId(arguments.request);
    let stopped = match place {
        Place::Database(database) => {
            let stopped = requests::cancel(&database.operations, &database.caller, app.id, send).await;
            stopped.map(|changed| Changed { changed })
        }
        Place::Console(api) => api.delete(&[&"apps", &app.id, &"requests", &send]).await,
    };
    let Changed { changed: stopped } = stopped.or_missing(|| {
        format!("app {0} has no send {send}, or it is not planned yet; see `tidings sends {0}`", app.name)
    })?;
    let noun = if stopped == 1 { "delivery" } else { "deliveries" };
    let report = json!({"app": app.name, "requestId": send, "cancelled": stopped});
    Ok(arguments.app.options.report(&report, format!("Cancelled {stopped} {noun} of send {send}.\n")))
}
