//! `tidings suppression`: targets that a provider reported dead.

use anyhow::Context;
use clap::Subcommand;
use domain::Channel;
use domain::target::masked;
use serde_json::{Value, json};
use store::deliveries::suppression::{Lifted, Restored, Suppression, SuppressionFilter};

use crate::control_plane::{Installation, actor};
use crate::table;

/// List and lift suppressions: targets that a provider reported dead, to which nothing is sent any more.
///
/// A suppressed push token is removed from the profiles that hold it, and a suppressed browser subscription is dropped; an
/// address stays on the profile but is not used. Registering a token or a subscription again lifts its suppression.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  tidings suppression list --app shop
  tidings suppression lift shop email ada@example.com")]
pub(crate) enum Command {
    List(ListArguments),
    Lift(LiftArguments),
}

/// List suppressions, latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings suppression list
  tidings suppression list --app shop --channel email --reveal
  tidings suppression list --limit 1000 --json")]
pub(crate) struct ListArguments {
    /// Only suppressions of this app, by name or id
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Only suppressions of this channel: email, sms, mobilePush or webPush
    #[arg(long, value_name = "NAME", value_parser = parse_channel)]
    channel: Option<Channel>,
    /// Maximum number of suppressions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Show addresses and tokens in full
    #[arg(long)]
    reveal: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

/// Lift a suppression: the target is used again, and what the suppression removed is restored.
///
/// A token returns to the profiles that had it, unless their users no longer exist or have it again; a browser subscription
/// returns to its device, unless the device no longer exists or has another one. If the provider reports the target dead
/// again, it is suppressed again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings suppression lift shop email ada@example.com
  tidings suppression lift shop mobilePush fcm:bk3RNwTe3H0:CI2k_HHwg
  tidings suppression lift shop webPush 0195f1c2-7a54-5b1e-9c55-2b4a6d3c1f10

Exit codes:
  0  lifted
  1  there is no such suppression, or a server cannot be reached
  2  the command line or the configuration is not valid")]
pub(crate) struct LiftArguments {
    /// Name or id of the app
    app: String,
    /// email, sms, mobilePush or webPush
    #[arg(value_parser = parse_channel)]
    channel: Channel,
    /// The target in full, or the id of the delivery that led to its suppression, as `list` shows it
    #[arg(value_name = "TARGET|DELIVERY")]
    target: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

fn parse_channel(text: &str) -> Result<Channel, String> {
    let known = Channel::EXTERNAL.into_iter().find(|channel| channel.as_str() == text);
    known.ok_or_else(|| format!("expected one of {}", Channel::EXTERNAL.map(Channel::as_str).join(", ")))
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::List(arguments) => list(&arguments).await,
        Command::Lift(arguments) => lift(&arguments).await,
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = match &arguments.app {
        Some(named) => Some(control_plane.app(named).await?.id),
        None => None,
    };
    let filter = SuppressionFilter { app, channel: arguments.channel };
    let limit = i64::from(arguments.limit);
    let mut found = control_plane.store.deliveries().list_suppressions(filter, limit + 1).await?;
    let has_more = found.len() > arguments.limit as usize;
    found.truncate(arguments.limit as usize);
    let target =
        |found: &Suppression| if arguments.reveal { found.target.clone() } else { masked(&found.target) };
    if arguments.json {
        let rows: Value = found.iter().map(|found| as_json(found, &target(found))).collect();
        return Ok(format!("{rows}\n"));
    }
    let rows: Vec<_> = found
        .iter()
        .map(|found| {
            let (channel, at) = (found.channel.to_string(), found.at.to_string());
            [
                found.app_name.clone(),
                channel,
                target(found),
                found.code.clone(),
                at,
                found.delivery.to_string(),
            ]
        })
        .collect();
    let mut text = table::render(["APP", "CHANNEL", "TARGET", "CODE", "SINCE", "DELIVERY"], &rows);
    if has_more {
        text.push_str(&format!("\nThere are more than {}; --limit shows more.\n", arguments.limit));
    }
    Ok(text)
}

fn as_json(found: &Suppression, target: &str) -> Value {
    json!({
        "appId": found.app.to_string(),
        "app": found.app_name,
        "channel": found.channel,
        "target": target,
        "code": found.code,
        "since": found.at,
        "deliveryId": found.delivery,
    })
}

async fn lift(arguments: &LiftArguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let (channel, target) = (arguments.channel, &arguments.target);
    let lifted = control_plane.store.deliveries().lift_suppression(app.id, channel, target, &actor()).await?;
    let Lifted { target, restored } = lifted.with_context(|| {
        format!(
            "app {0} has no such suppression of {channel}; `tidings suppression list --app {0}` lists its suppressions",
            app.name
        )
    })?;
    let target = masked(&target);
    let (name, effect) = match restored {
        Restored::Nothing => ("nothing", "The target never left its profiles.".to_owned()),
        Restored::Token(users) => (
            "token",
            format!("The token is back on the profile of {users} user{}.", if users == 1 { "" } else { "s" }),
        ),
        Restored::Subscription => ("subscription", "The subscription is back on its device.".to_owned()),
        Restored::NotNeeded => (
            "notNeeded",
            "Nothing was restored: its users or device no longer exist, or already have a target again."
                .to_owned(),
        ),
    };
    Ok(if arguments.json {
        format!("{}\n", json!({"app": app.name, "channel": channel, "target": target, "restored": name}))
    } else {
        format!("Lifted the suppression of {channel} {target} of app {}. {effect}\n", app.name)
    })
}
