use clap::Subcommand;
use domain::target::masked;
use domain::{Channel, DeliveryId, Timestamp};
use operations::suppressions;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::deliveries::suppression::{LiftedSuppression, RestoreResult, Suppression, SuppressionFilter};

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::{self, Options};
use crate::place::{NOT_REVEALED, Place};
use crate::refused::{InvalidInput, OrMissing as _};

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
    /// Show addresses and tokens in full; needs the database
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

/// A suppressed target.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SuppressionRow {
    app_id: String,
    app: String,
    channel: Channel,
    target: String,
    code: String,
    since: Timestamp,
    delivery_id: DeliveryId,
}

impl From<Suppression> for SuppressionRow {
    fn from(found: Suppression) -> SuppressionRow {
        SuppressionRow {
            app_id: found.app.to_string(),
            app: found.app_name,
            channel: found.channel,
            target: found.target,
            code: found.code,
            since: found.at,
            delivery_id: found.delivery,
        }
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let named = arguments.app.as_ref().or(arguments.app_option.as_ref());
    let app = place.app_id(named.map(String::as_str)).await?;
    let (channel, more_than_asked) = (arguments.channel, i64::from(arguments.limit) + 1);
    let found: Vec<SuppressionRow> = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let filter = SuppressionFilter { app, channel, after: None };
            rows(suppressions::list(operations, caller, filter, more_than_asked, arguments.reveal).await?)
        }
        Place::Console(_) if arguments.reveal => return Err(InvalidInput(NOT_REVEALED.to_owned()).into()),
        Place::Console(api) => {
            let query = Query::default().with("app", app).with("channel", channel);
            api.first(&[&"suppressions"], query, usize::try_from(more_than_asked)?).await?
        }
    };
    let header = ["APP", "CHANNEL", "TARGET", "CODE", "SINCE", "DELIVERY"];
    Ok(Listing::first(found, arguments.limit).render(arguments.options.json, header, |found| {
        let (app, target, code) = (found.app.clone(), found.target.clone(), found.code.clone());
        let (channel, since) = (found.channel.to_string(), found.since.to_string());
        [app, channel, target, code, since, found.delivery_id.to_string()]
    }))
}

/// A suppression that was lifted.
#[derive(Deserialize)]
struct Lifted {
    /// Masked.
    target: String,
    /// `nothing`, `token`, `subscription` or `notNeeded`.
    restored: String,
    /// Number of profiles that have a token again.
    users: usize,
}

impl From<LiftedSuppression> for Lifted {
    fn from(lifted: LiftedSuppression) -> Lifted {
        let users = if let RestoreResult::Token(users) = lifted.restored { users } else { 0 };
        let (target, restored) = (masked(&lifted.target), lifted.restored.as_str().to_owned());
        Lifted { target, restored, users }
    }
}

async fn lift(arguments: &LiftArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let (channel, target) = (arguments.channel, &arguments.target);
    let lifted = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            suppressions::lift(operations, caller, app.id, channel, target).await.map(Lifted::from)
        }
        Place::Console(api) => api.delete(&[&"apps", &app.id, &"suppressions", &channel, target]).await,
    };
    let Lifted { target, restored, users } = lifted.or_missing(|| {
        format!(
            "app {0} has no such suppression of {channel}; `tidings suppression list {0}` lists its suppressions",
            app.name
        )
    })?;
    let effect = match restored.as_str() {
        "nothing" => "The profiles still had the target.".to_owned(),
        "token" => {
            format!("The token is back on the profile of {users} user{}.", if users == 1 { "" } else { "s" })
        }
        "subscription" => "The subscription is back on its device.".to_owned(),
        _ => "Nothing was restored: the target's users or device no longer exist, or already have this target or a newer one."
            .to_owned(),
    };
    let report = json!({"app": app.name, "channel": channel, "target": target, "restored": restored});
    Ok(arguments.options.report(
        &report,
        format!("Lifted the suppression of {channel} {target} of app {}. {effect}\n", app.name),
    ))
}
