use anyhow::Context as _;
use operations::users;
use serde_json::json;

use crate::options::AppArguments;
use crate::place::Place;
use crate::refused::OrMissing as _;

/// Erase a user: profile, devices, preferences and inbox are deleted, and addresses disappear from all sends.
///
/// The user is unknown at once. The dispatcher deletes the remaining data within minutes. This cannot be undone. docs/erasure.md lists the
/// deleted data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings erase shop ada

Exit codes:
  0  erased
  1  the app has no such user, or a server cannot be reached
  2  the command line or the configuration is not valid")]
pub(crate) struct Arguments {
    #[command(flatten)]
    app: AppArguments,
    /// Identifier of the user
    user: String,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (place, app) = arguments.app.open().await?;
    let user = &arguments.user;
    let erased = match place {
        Place::Database(database) => {
            let partitions = database.store.database().partitions().await?;
            let partitions = partitions.context("no service has run on this database yet")?;
            users::erase(&database.operations, &database.caller, app.id, user, partitions).await
        }
        Place::Console(api) => api.delete(&[&"apps", &app.id, &"people", user]).await,
    };
    erased.or_missing(|| {
        format!("app {0} has no user {1:?}; `tidings users {0}` lists its users", app.name, arguments.user)
    })?;
    let report = json!({"app": app.name, "user": arguments.user, "erased": true});
    let text = format!("Erased {} of app {}.\n", arguments.user, app.name);
    Ok(arguments.app.options.report(&report, text))
}
