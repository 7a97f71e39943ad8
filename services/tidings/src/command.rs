//! The command line.

use std::io::Write;

use clap::{Parser, Subcommand};

use crate::{
    DONE, app, audit, master_key, migrate, parked, provider, rebuild, restore, suppression, template, verify,
    webhook,
};
#[cfg(feature = "development")]
use crate::{stand_ins, up};

/// Tidings: self-hosted notification delivery.
#[derive(Debug, Parser)]
#[command(
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes:
  0  done
  1  failed: a server cannot be reached, a name is taken or unknown, a port is in use
  2  not usable: the command line, the configuration or a document is not valid; nothing was changed

Configuration: --config FILE, else the file that TIDINGS_CONFIG names; over it TIDINGS_* variables
(TIDINGS_DATABASE__URL), DATABASE_URL and NATS_URL.

Start here:
  tidings migrate
  tidings app create shop"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "development")]
    Up(up::Arguments),
    Migrate(migrate::Arguments),
    #[command(subcommand)]
    App(app::Command),
    #[command(subcommand)]
    Provider(provider::Command),
    #[command(subcommand)]
    Webhook(webhook::Command),
    #[command(subcommand)]
    MasterKey(master_key::Command),
    #[command(subcommand)]
    Template(template::Command),
    #[command(subcommand)]
    Parked(parked::Command),
    #[command(subcommand)]
    Suppression(suppression::Command),
    #[command(subcommand)]
    Audit(audit::Command),
    #[command(subcommand)]
    Rebuild(rebuild::Command),
    Verify(verify::Arguments),
    Restore(restore::Arguments),
    Version(VersionArguments),
    #[cfg(feature = "development")]
    #[command(hide = true)]
    StandIns(stand_ins::Arguments),
}

/// Print the version.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings version --json")]
struct VersionArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Cli {
    /// Runs the command, prints what it has to say once it is done, and returns the exit code.
    pub(crate) async fn run(self) -> anyhow::Result<u8> {
        let text = match self.command {
            #[cfg(feature = "development")]
            Command::Up(arguments) => return up::run(&arguments).await.map(|()| DONE),
            #[cfg(feature = "development")]
            Command::StandIns(arguments) => return stand_ins::run(&arguments).await.map(|()| DONE),
            Command::Rebuild(rebuild::Command::Inbox(arguments)) => return rebuild::run(&arguments).await,
            Command::Verify(arguments) => return verify::run(&arguments).await,
            Command::Migrate(arguments) => migrate::run(&arguments).await?,
            Command::App(command) => app::run(command).await?,
            Command::Provider(command) => provider::run(command).await?,
            Command::Webhook(command) => webhook::run(command).await?,
            Command::MasterKey(command) => master_key::run(command).await?,
            Command::Template(command) => template::run(command).await?,
            Command::Parked(command) => parked::run(command).await?,
            Command::Suppression(command) => suppression::run(command).await?,
            Command::Audit(command) => audit::run(command).await?,
            Command::Restore(arguments) => restore::run(&arguments).await?,
            Command::Version(arguments) => version(&arguments),
        };
        print(&text)?;
        Ok(DONE)
    }
}

/// Writes to standard output, for people or for the next program.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(())
}

fn version(arguments: &VersionArguments) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if arguments.json {
        format!("{}\n", serde_json::json!({"version": version}))
    } else {
        format!("tidings {version}\n")
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_command_shows_an_example() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        let mut waiting: Vec<&clap::Command> = cli.get_subcommands().collect();
        while let Some(command) = waiting.pop() {
            waiting.extend(command.get_subcommands());
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
        }
    }
}
