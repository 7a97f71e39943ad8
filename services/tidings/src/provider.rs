//! `tidings provider`: whom an app's external deliveries go through.

mod document;
pub(crate) mod kinds;
mod listing;
mod probe;
mod secret_members;
mod set;
mod switch;

use clap::Subcommand;

use crate::control_plane::Installation;

/// Set, list, test, switch and remove the providers that deliver for an app.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings provider set shop main.json")]
pub(crate) enum Command {
    Set(set::Arguments),
    List(listing::ListArguments),
    /// Show one provider of an app, without its secrets. What is shown can be changed and set again.
    #[command(after_help = "Examples:
  tidings provider show shop main > main.json
  tidings provider set shop main.json")]
    Show(ProviderArguments),
    Test(probe::Arguments),
    /// Let a provider deliver again.
    #[command(after_help = "Example:
  tidings provider enable shop main")]
    Enable(ProviderArguments),
    /// Keep a provider and its secrets, and let it deliver nothing. Workers notice within two seconds.
    #[command(after_help = "Example:
  tidings provider disable shop main")]
    Disable(ProviderArguments),
    /// Remove a provider and its secrets for good. Workers notice within two seconds.
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
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
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

/// What is said where the app has no such provider.
fn unknown(app: &str, identifier: &str) -> String {
    format!("app {app} has no provider {identifier:?}; `tidings provider list` shows those there are")
}
