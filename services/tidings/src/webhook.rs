mod failed;
mod listing;
mod probe;
mod secret;
mod set;

use anyhow::anyhow;
use clap::Subcommand;
use operations::webhooks;

use self::listing::EndpointRow;
use crate::app::AppRow;
use crate::options::AppArguments;
use crate::place::Place;
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

/// Finds an endpoint by URL or id.
async fn endpoint(place: &Place, app: &AppRow, url_or_id: &str) -> anyhow::Result<EndpointRow> {
    let missing = || unknown(url_or_id);
    match place {
        Place::Database(database) => {
            let found = webhooks::find(&database.operations, &database.caller, app.id, url_or_id).await;
            found.map(EndpointRow::from).or_missing(missing)
        }
        Place::Console(api) => {
            let endpoints = listing::endpoints(api, app).await?;
            let is_named = |found: &EndpointRow| found.url == url_or_id || found.id.to_string() == url_or_id;
            endpoints.into_iter().find(is_named).ok_or_else(|| anyhow!(missing()))
        }
    }
}

fn unknown(url_or_id: &str) -> String {
    format!("endpoint {url_or_id:?} does not exist; `tidings webhook list` lists the endpoints")
}
