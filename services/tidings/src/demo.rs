mod send;

use std::path::PathBuf;

use anyhow::Context as _;
use service_kit::{Config, Context, server, telemetry};
use stand_ins::interface;
use stand_ins::{StandInPorts, StandInSettings, StandIns};

use crate::print::print;
use crate::refused::InvalidInput;
use crate::up::greeting::Steps;
use crate::up::{Signals, demo, greeting};

/// Run stand-ins for the providers, with a demo app that uses them, until SIGTERM or SIGINT. `send` sends to the demo app of a
/// running `tidings up`.
///
/// The services need two settings: outbound.allow_private, because the stand-ins have private addresses, and
/// web_push.hosts with the origin of the stand-in for the browsers' push service. The outbox shows the messages that
/// the stand-ins received.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  tidings demo send
  tidings demo --host demo --data-dir /var/lib/tidings-demo"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    stand_ins: Option<StandInArguments>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Send(send::Arguments),
}

#[derive(Debug, clap::Args)]
struct StandInArguments {
    /// Host name under which the services reach this process
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Directory for captured messages and the credentials of the demo app
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Port of the outbox; 0 for a free one
    #[arg(long, value_name = "N", default_value_t = 8025)]
    outbox_port: u16,
    /// Port of the stand-in for the browsers' push service; 0 for a free one
    #[arg(long, value_name = "N", default_value_t = 8026)]
    push_service_port: u16,
    /// Origin of the API in the printed examples
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    api: String,
    /// Base URL of the outbox in the printed examples
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8025")]
    outbox: String,
    /// Configuration file (TOML) [default: the file that TIDINGS_CONFIG names, if any]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match (&arguments.command, &arguments.stand_ins) {
        (Some(Command::Send(arguments)), _) => print(&Box::pin(send::run(arguments)).await?),
        (None, Some(arguments)) => Box::pin(run_stand_ins(arguments)).await,
        (None, None) => {
            Err(InvalidInput("name the subcommand `send`, or --host and --data-dir".to_owned()).into())
        }
    }
}

async fn run_stand_ins(arguments: &StandInArguments) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let config = Config::load(arguments.config.as_deref())?;
    let _telemetry = telemetry::init("tidings-demo", &config)?;
    interface::serve_as(&arguments.host);
    let settings = StandInSettings {
        ports: StandInPorts {
            push_service: arguments.push_service_port,
            outbox: arguments.outbox_port,
            ..StandInPorts::default()
        },
        ..StandInSettings::in_directory(arguments.data_dir.join("outbox"))
    };
    let stand_ins = StandIns::start(&settings).await.context("cannot start the stand-ins")?;
    let context = Context::connect(config).await?;
    let app = demo::credentials(&context, &arguments.data_dir.join("demo-app.json")).await?;
    demo::set_providers(&context, app.app_id, &demo::providers(&stand_ins)).await?;
    server::start(&context).await?;
    print(&greeting::steps(&Steps {
        api: &arguments.api,
        outbox: &arguments.outbox,
        api_key: &app.api_key,
        api_secret: &app.api_secret,
        prefix: context.config.header_prefixes.first().map_or("X-SERVICE", String::as_str),
        commands: "",
    }))?;
    signals.received().await;
    context.tasks.stop();
    let finished = context.finish().await;
    stand_ins.stop().await;
    context.store.close().await;
    Ok(finished?)
}
