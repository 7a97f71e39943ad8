pub(crate) mod kinds;
mod listing;
mod probe;
mod set;
mod switch;

use clap::Subcommand;

use crate::options::{AppArguments, Options};

/// Set, list, show, test, enable, disable and remove the providers of an app.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings provider set shop main.json")]
pub(crate) enum Command {
    Set(set::Arguments),
    /// List the providers of an app, without their secrets.
    #[command(after_help = "Example:
  tidings provider list shop --json")]
    List(AppArguments),
    /// Show one provider of an app, without its secrets. The output can be edited and passed to `set`.
    #[command(after_help = "Examples:
  tidings provider show shop main > main.json
  tidings provider set shop main.json")]
    Show(ProviderArguments),
    Test(probe::Arguments),
    /// Enable a disabled provider. Workers notice within two seconds.
    #[command(after_help = "Example:
  tidings provider enable shop main")]
    Enable(ProviderArguments),
    /// Disable a provider, and keep it and its secrets. Workers notice within two seconds.
    #[command(after_help = "Example:
  tidings provider disable shop main")]
    Disable(ProviderArguments),
    /// Remove a provider and its secrets permanently. Workers notice within two seconds.
    #[command(after_help = "Example:
  tidings provider remove shop main")]
    Remove(ProviderArguments),
}

/// One provider of an app.
#[derive(Debug, clap::Args)]
pub(crate) struct ProviderArguments {
    /// Name or id of the app
    app: String,
    /// Identifier of the provider
    identifier: String,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Set(arguments) => set::run(&arguments).await,
        Command::List(arguments) => listing::list(&arguments).await,
        Command::Show(arguments) => listing::show(&arguments).await,
        Command::Test(arguments) => probe::run(&arguments).await,
        Command::Enable(arguments) => switch::enable(&arguments, true).await,
        Command::Disable(arguments) => switch::enable(&arguments, false).await,
        Command::Remove(arguments) => switch::remove(&arguments).await,
    }
}

fn unknown(app: &str, identifier: &str) -> String {
    format!("app {app} has no provider {identifier:?}; `tidings provider list` lists its providers")
}
