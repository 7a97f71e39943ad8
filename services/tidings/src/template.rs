mod diff;
mod listing;
mod preview;
mod put;

use clap::Subcommand;

use crate::options::{AppArguments, Options};

/// Put, show, compare, preview and restore the templates of an app.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings template put shop welcome.json")]
pub(crate) enum Command {
    Put(put::Arguments),
    /// List the templates of an app, each in its latest version.
    #[command(after_help = "Example:
  tidings template list shop --json")]
    List(AppArguments),
    /// Show a template. The output can be edited and passed to `put`.
    #[command(after_help = "Examples:
  tidings template show shop welcome > welcome.json
  tidings template show shop welcome --version 3")]
    Show(VersionArguments),
    Versions(listing::VersionsArguments),
    Diff(diff::Arguments),
    Preview(preview::Arguments),
    Restore(put::RestoreArguments),
}

/// One template of an app.
#[derive(Debug, clap::Args)]
pub(crate) struct TemplateArguments {
    /// Name or id of the app
    app: String,
    /// Identifier of the template
    identifier: String,
    #[command(flatten)]
    options: Options,
}

/// One version of a template.
#[derive(Debug, clap::Args)]
pub(crate) struct VersionArguments {
    #[command(flatten)]
    template: TemplateArguments,
    /// Number of the version [default: the latest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    version: Option<i32>,
}

impl TemplateArguments {
    /// Error text if the template, or the given version of it, does not exist.
    fn missing(&self, app: &str, version: Option<i32>) -> String {
        let identifier = &self.identifier;
        match version {
            None => format!(
                "app {app} has no template {identifier:?}; `tidings template list {app}` lists its templates"
            ),
            Some(version) => format!(
                "app {app} has no version {version} of a template {identifier:?}; `tidings template versions {app} {identifier}` \
                 lists its versions"
            ),
        }
    }
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Put(arguments) => put::run(&arguments).await,
        Command::List(arguments) => listing::list(&arguments).await,
        Command::Show(arguments) => listing::show(&arguments).await,
        Command::Versions(arguments) => listing::versions(&arguments).await,
        Command::Diff(arguments) => diff::run(&arguments).await,
        Command::Preview(arguments) => preview::run(&arguments).await,
        Command::Restore(arguments) => put::restore(&arguments).await,
    }
}
