use clap::Subcommand;
use domain::Channel;
use domain::target::masked;
use operations::suppressions;
use serde_json::{Value, json};
use store::deliveries::suppression::{LiftedSuppression, RestoreResult, Suppression, SuppressionFilter};

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::{self, Options};
use crate::refused::OrMissing as _;

/// List and lift suppressions of targets. Tidings no longer sends to a target that a provider reported as dead.
///
/// A suppressed push token is removed from the profiles that contain it, and a suppressed browser subscription is
/// removed from its device. A suppressed address stays on the profile but is not used. Registering a token or a
/// subscription again lifts its suppression.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  tidings suppression list shop
  tidings suppression lift shop email ada@example.com")]
pub(crate) enum Command {
    List(ListArguments),
    Lift(LiftArguments),
}

/// List suppressions, latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings suppression list
  tidings suppression list shop --channel email --reveal
  tidings suppression list --limit 1000 --json")]
pub(crate) struct ListArguments {
    /// Only suppressions of this app, by name or id
    app: Option<String>,
    /// The same as the argument
    #[arg(long = "app", value_name = "APP", conflicts_with = "app")]
    app_option: Option<String>,
    /// Only suppressions of this channel: email, sms, mobilePush or webPush
    #[arg(long, value_name = "NAME", value_parser = options::parse_channel)]
    channel: Option<Channel>,
    /// Maximum number of suppressions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Show addresses and tokens in full
    #[arg(long)]
    reveal: bool,
    #[command(flatten)]
    options: Options,
}

/// Lift a suppression: the target is used again, and a token or subscription that was removed is restored.
///
/// A token returns to the profiles that had it, unless the user no longer exists or has the token again. A browser
/// subscription returns to its device, unless the device no longer exists or has another subscription. If the provider
/// reports the target as dead again, it is suppressed again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings suppression lift shop email ada@example.com
  tidings suppression lift shop sms '+49 151 12345678'
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
    #[arg(value_parser = options::parse_channel)]
    channel: Channel,
    /// The target in full, or the id of the delivery that led to its suppression, as `list` shows it
    #[arg(value_name = "TARGET|DELIVERY")]
    target: String,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::List(arguments) => list(&arguments).await,
        Command::Lift(arguments) => lift(&arguments).await,
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let control_plane = arguments.options.open().await?;
    let named = arguments.app.as_ref().or(arguments.app_option.as_ref());
    let app = control_plane.app_id(named.map(String::as_str)).await?;
    let filter = SuppressionFilter { app, channel: arguments.channel, after: None };
    let more_than_asked = i64::from(arguments.limit) + 1;
    let ControlPlane { operations, caller, .. } = control_plane;
    let found = suppressions::list(&operations, &caller, filter, more_than_asked, arguments.reveal).await?;
    let header = ["APP", "CHANNEL", "TARGET", "CODE", "SINCE", "DELIVERY"];
    Ok(Listing::first(found, arguments.limit).render(arguments.options.json, as_json, header, |found| {
        let Suppression { app_name, channel, target, code, at, delivery, .. } = found;
        let (app, target, code) = (app_name.clone(), target.clone(), code.clone());
        [app, channel.to_string(), target, code, at.to_string(), delivery.to_string()]
    }))
}

fn as_json(found: &Suppression) -> Value {
    json!({
        "appId": found.app.to_string(),
        "app": found.app_name,
        "channel": found.channel,
        "target": found.target,
        "code": found.code,
        "since": found.at,
        "deliveryId": found.delivery,
    })
}

async fn lift(arguments: &LiftArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let (channel, target) = (arguments.channel, &arguments.target);
    let ControlPlane { operations, caller, .. } = control_plane;
    let lifted = suppressions::lift(&operations, &caller, app.id, channel, target).await;
    let LiftedSuppression { target, restored } = lifted.or_missing(|| {
        format!(
            "app {0} has no such suppression of {channel}; `tidings suppression list {0}` lists its suppressions",
            app.name
        )
    })?;
    let target = masked(&target);
    let (name, effect) = match restored {
        RestoreResult::Nothing => ("nothing", "The profiles still had the target.".to_owned()),
        RestoreResult::Token(users) => (
            "token",
            format!("The token is back on the profile of {users} user{}.", if users == 1 { "" } else { "s" }),
        ),
        RestoreResult::Subscription => ("subscription", "The subscription is back on its device.".to_owned()),
        RestoreResult::NotNeeded => (
            "notNeeded",
            "Nothing was restored: the target's users or device no longer exist, or already have this target or a newer one."
                .to_owned(),
        ),
    };
    let report = json!({"app": app.name, "channel": channel, "target": target, "restored": name});
    Ok(arguments.options.report(
        &report,
        format!("Lifted the suppression of {channel} {target} of app {}. {effect}\n", app.name),
    ))
}
