use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use stand_ins::{StandInPorts, StandInSettings, StandIns};

use crate::print::print;
use crate::up::Signals;

/// Run the provider stand-ins until SIGTERM or SIGINT. As soon as they listen, the command prints their addresses as
/// one line of JSON.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings stand-ins --data-dir /tmp/stand-ins")]
pub(crate) struct Arguments {
    /// Directory for captured messages
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Port of the SMTP server; 0 for a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    smtp_port: u16,
    /// Port of the stand-in for the browsers' push service; 0 for a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    push_service_port: u16,
    /// Port of the outbox; 0 for a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    outbox_port: u16,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let settings = StandInSettings {
        ports: StandInPorts {
            smtp: arguments.smtp_port,
            push_service: arguments.push_service_port,
            outbox: arguments.outbox_port,
            ..StandInPorts::default()
        },
        ..StandInSettings::in_directory(&arguments.data_dir)
    };
    let stand_ins = StandIns::start(&settings).await.context("cannot start the stand-ins")?;
    let addresses = json!({
        "smtp": stand_ins.smtp_address().to_string(),
        "pushService": stand_ins.push_service_url(),
        "apns": stand_ins.apns().server().url(),
        "fcm": stand_ins.fcm().server().url(),
        "twilio": stand_ins.twilio().url(),
        "smsHttp": stand_ins.sms_http().url(),
        "smsc": stand_ins.smsc().address().to_string(),
        "outbox": stand_ins.outbox_url(),
    });
    print(&format!("{addresses}\n"))?;
    signals.received().await;
    stand_ins.stop().await;
    Ok(())
}
