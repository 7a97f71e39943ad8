mod failed;
mod listing;
mod probe;
mod secret;
mod set;

use clap::Subcommand;
use domain::AppId;
use operations::webhooks;
use store::webhooks::Endpoint;

use crate::control_plane::ControlPlane;
use crate::options::AppArguments;
use crate::refused::OrMissing as _;

const REMOVED: &str = "another process has just removed the endpoint";

/// Set, list, test and remove the endpoints to which Tidings reports the outcomes of an app's deliveries.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings webhook set shop https://shop.example.com/tidings")]
pub(crate) enum Command {
    Set(set::Arguments),
    /// List the endpoints of an app, without their secrets.
    #[command(after_help = "Example:
  tidings webhook list shop")]
    List(AppArguments),
    Remove(listing::RemoveArguments),
    #[command(subcommand)]
    Secret(secret::Command),
    Test(probe::Arguments),
    Failed(failed::Arguments),
    Redeliver(failed::RedeliverArguments),
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Set(arguments) => set::run(&arguments).await,
        Command::List(arguments) => listing::list(&arguments).await,
        Command::Remove(arguments) => listing::remove(&arguments).await,
        Command::Secret(command) => secret::run(command).await,
        Command::Test(arguments) => probe::run(&arguments).await,
        Command::Failed(arguments) => failed::list(&arguments).await,
        Command::Redeliver(arguments) => failed::redeliver(&arguments).await,
    }
}

impl ControlPlane {
    async fn endpoint(&self, app: AppId, url_or_id: &str) -> anyhow::Result<Endpoint> {
        webhooks::find(&self.operations, &self.caller, app, url_or_id).await.or_missing(|| {
            format!("endpoint {url_or_id:?} does not exist; `tidings webhook list` lists the endpoints")
        })
    }
}
