use domain::{Channel, Reason};
use operations::requests;
use serde_json::json;
use store::deliveries::waiting::WaitingCause;

use crate::admin_api::Changed;
use crate::options::{self, Options};
use crate::place::Place;

/// Try up to 10,000 deliveries that wait for a cause now, for example after the provider has recovered.
///
/// While the provider may not be called, they wait again. A delivery that waits for a retry uses up one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings waiting release shop --channel email --reason breaker_open --provider main --code 421")]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// Channel, as `tidings waiting` shows it
    #[arg(long, value_parser = options::parse_channel)]
    channel: Channel,
    /// Cause, as `tidings waiting --json` shows it
    #[arg(long, value_parser = parse_reason)]
    reason: Reason,
    /// Provider of the group; leave it out for the group without one
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Code of the group; leave it out for the group without one
    #[arg(long)]
    code: Option<String>,
    #[command(flatten)]
    options: Options,
}

fn parse_reason(text: &str) -> Result<Reason, String> {
    text.parse().map_err(|_| "expected a reason such as breaker_open".to_owned())
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let Arguments { channel, reason, provider, code, .. } = arguments;
    let released = match place {
        Place::Database(database) => {
            let (provider, code) = (provider.clone(), code.clone());
            let cause = WaitingCause { channel: *channel, reason: *reason, provider, code };
            requests::release(&database.operations, &database.caller, app.id, &cause).await?
        }
        Place::Console(api) => {
            let cause = json!({"channel": channel, "reason": reason, "provider": provider, "code": code});
            let Changed { changed } = api.post(&[&"apps", &app.id, &"waiting", &"release"], &cause).await?;
            changed
        }
    };
    let text = format!("{released} deliveries of app {} are tried now.\n", app.name);
    Ok(arguments.options.report(&json!({"released": released}), text))
}
