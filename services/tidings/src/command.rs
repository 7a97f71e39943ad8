use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use crate::print::print;
use crate::{
    DONE, app, audit, cancel, erase, explain, healthcheck, master_key, mcp, migrate, operator, parked,
    processes, provider, rebuild, refused_calls, restore, run, sends, smoke, suppression, template, token,
    users, verify, version, waiting, webhook,
};
#[cfg(feature = "development")]
use crate::{demo, stand_ins, up};

/// Tidings: self-hosted notification delivery.
#[derive(Debug, Parser)]
#[command(
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes:
  0  done
  1  failed: a server cannot be reached, a name is taken or unknown, a port is in use
  2  not usable: the command line, the configuration or a document is not valid; nothing was changed

Configuration: --config FILE, else the file that TIDINGS_CONFIG names. TIDINGS_* variables
(TIDINGS_DATABASE__URL), DATABASE_URL and NATS_URL override the file.

From another machine: most commands have --url and call the console's API with the token in TIDINGS_TOKEN.
TIDINGS_URL stands for --url in these commands, unless --config or --data-dir is given.
  tidings app list --url https://console.example.com

Start here:
  tidings migrate
  tidings app create shop
  tidings run gateway"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Healthcheck(healthcheck::Arguments),
    #[command(flatten)]
    Tool(Tool),
}

/// Commands that run to completion.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    #[cfg(feature = "development")]
    Up(up::Arguments),
    #[cfg(feature = "development")]
    Demo(demo::Arguments),
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
    Explain(explain::Arguments),
    Sends(sends::Arguments),
    Cancel(cancel::Arguments),
    Waiting(waiting::Arguments),
    Processes(processes::Arguments),
    #[command(subcommand)]
    Parked(parked::Command),
    #[command(subcommand)]
    Suppression(suppression::Command),
    Users(users::Arguments),
    Erase(erase::Arguments),
    Refused(refused_calls::Arguments),
    #[command(subcommand)]
    Operator(operator::Command),
    Mcp(mcp::Arguments),
    #[command(subcommand)]
    Token(token::Command),
    #[command(subcommand)]
    Audit(audit::Command),
    #[command(subcommand)]
    Rebuild(rebuild::Command),
    Verify(verify::Arguments),
    Restore(restore::Arguments),
    Smoke(smoke::Arguments),
    Version(version::Arguments),
    #[cfg(feature = "development")]
    #[command(hide = true)]
    StandIns(stand_ins::Arguments),
}

impl Cli {
    /// A service creates its own runtime; `with_runtime` runs the other commands.
    pub(crate) fn run(self, with_runtime: impl FnOnce(Tool) -> ExitCode) -> ExitCode {
        match self.command {
            Command::Run(arguments) => run::run(&arguments),
            Command::Healthcheck(arguments) => healthcheck::run(&arguments),
            Command::Tool(tool) => with_runtime(tool),
        }
    }
}

impl Tool {
    pub(crate) async fn run(self) -> anyhow::Result<u8> {
        let text = match self {
            #[cfg(feature = "development")]
            Tool::Up(arguments) => return up::run(&arguments).await.map(|()| DONE),
            #[cfg(feature = "development")]
            Tool::Demo(arguments) => return Box::pin(demo::run(&arguments)).await.map(|()| DONE),
            #[cfg(feature = "development")]
            Tool::StandIns(arguments) => return stand_ins::run(&arguments).await.map(|()| DONE),
            Tool::Rebuild(rebuild::Command::Inbox(arguments)) => return rebuild::run(&arguments).await,
            Tool::Verify(arguments) => return verify::run(&arguments).await,
            Tool::Mcp(arguments) => return Box::pin(mcp::run(&arguments)).await,
            Tool::Processes(arguments) => return processes::run(&arguments).await,
            Tool::Migrate(arguments) => migrate::run(&arguments).await?,
            Tool::App(command) => app::run(command).await?,
            Tool::Provider(command) => provider::run(command).await?,
            Tool::Webhook(command) => webhook::run(command).await?,
            Tool::MasterKey(command) => master_key::run(command).await?,
            Tool::Template(command) => template::run(command).await?,
            Tool::Explain(arguments) => explain::run(&arguments).await?,
            Tool::Sends(arguments) => sends::run(&arguments).await?,
            Tool::Cancel(arguments) => cancel::run(&arguments).await?,
            Tool::Waiting(arguments) => waiting::run(&arguments).await?,
            Tool::Parked(command) => parked::run(command).await?,
            Tool::Suppression(command) => suppression::run(command).await?,
            Tool::Users(arguments) => users::run(&arguments).await?,
            Tool::Erase(arguments) => erase::run(&arguments).await?,
            Tool::Refused(arguments) => refused_calls::run(&arguments).await?,
            Tool::Operator(command) => operator::run(command).await?,
            Tool::Token(command) => token::run(command).await?,
            Tool::Audit(command) => audit::run(command).await?,
            Tool::Restore(arguments) => restore::run(&arguments).await?,
            Tool::Smoke(arguments) => smoke::run(&arguments).await?,
            Tool::Version(arguments) => version::run(&arguments),
        };
        print(&text)?;
        Ok(DONE)
    }
}

/// Returns true if a command that works on the machine or on the database has the option `--url`.
pub(crate) fn refuses_console(error: &clap::Error) -> bool {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return false };
    if error.kind() != ErrorKind::UnknownArgument || !["--url", "--token", "--token-file"].contains(&&**name)
    {
        return false;
    }
    let mut command = Cli::command();
    for word in std::env::args().skip(1) {
        match command.find_subcommand(&word) {
            Some(below) => command = below.clone(),
            None => break,
        }
    }
    !command.has_subcommands()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid_and_every_command_shows_an_example() {
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
