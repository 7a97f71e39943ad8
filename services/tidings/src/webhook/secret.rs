use std::fmt::Display;
use std::time::Duration;

use clap::Subcommand;
use operations::webhooks;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;

use super::{REMOVED, endpoint};
use crate::options::{self, Options};
use crate::place::Place;
use crate::refused::OrMissing as _;

/// Rotate the secret that signs the calls to an endpoint.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings webhook secret rotate shop https://shop.example.com/tidings")]
pub(crate) enum Command {
    Rotate(RotateArguments),
}

/// Create a new secret for an endpoint, and print it once. For a grace period, calls are also signed with the previous
/// secret.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings webhook secret rotate shop https://shop.example.com/tidings --grace 1h")]
pub(crate) struct RotateArguments {
    /// Name or id of the app
    app: String,
    /// URL or id of the endpoint
    endpoint: String,
    /// Time for which calls are also signed with the previous secret, at most 90 days
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = options::parse_grace)]
    grace: Duration,
    #[command(flatten)]
    options: Options,
}

#[derive(Deserialize)]
struct Rotated {
    secret: String,
}

pub(super) async fn run(command: Command) -> anyhow::Result<String> {
    let Command::Rotate(arguments) = command;
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let endpoint = endpoint(&place, &app, &arguments.endpoint).await?;
    let grace = arguments.grace;
    let rotated = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let secret = webhooks::rotate_secret(operations, caller, app.id, endpoint.id, grace).await;
            secret.map(|secret| Rotated { secret: secret.expose_secret().to_owned() })
        }
        Place::Console(api) => {
            let path: [&dyn Display; 5] = [&"apps", &app.id, &"webhooks", &endpoint.id, &"secret"];
            api.post(&path, &json!({"graceSeconds": grace.as_secs()})).await
        }
    };
    let Rotated { secret } = rotated.or_missing(|| REMOVED.to_owned())?;
    let report = json!({"id": endpoint.id, "url": endpoint.url, "secret": secret});
    let text = format!(
        "Renewed the secret of endpoint {} of app {}.\n\n  secret  {secret}\n\nKeep it: it is not shown again. Calls are \
         signed with the previous one too for {}.\n",
        endpoint.id,
        app.name,
        humantime::format_duration(grace),
    );
    Ok(arguments.options.report(&report, text))
}
