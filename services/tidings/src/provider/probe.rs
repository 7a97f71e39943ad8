use std::time::Duration;

use anyhow::bail;
use operations::providers::{self, FailedTest, ProviderTest, ProviderTests};
use serde_json::json;

use super::unknown;
use crate::options::Options;
use crate::print::print;
use crate::refused::OrMissing as _;

const LONGEST: Duration = Duration::from_secs(300);

/// Let a worker of the channel call a provider with the stored credentials, even if it is disabled, and print the result. Nothing is sent
/// to a person.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 if the provider did not pass, or if no worker of its channel runs.

Examples:
  tidings provider test shop main
  tidings provider test shop main --timeout 5s --json")]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// Identifier of the provider
    identifier: String,
    /// Timeout of the call, at most 5 minutes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    options: Options,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() || time > LONGEST {
        return Err("expected a time above 0 and up to 5 minutes".to_owned());
    }
    Ok(time)
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let (operations, caller, identifier) =
        (control_plane.operations, control_plane.caller, &arguments.identifier);
    let missing = || unknown(&app.name, identifier);
    // An unknown provider is reported without the log.
    providers::find(&operations, &caller, app.id, identifier).await.or_missing(missing)?;
    let log = arguments.options.installation.log().await?;
    let tests = ProviderTests::new(operations, log);
    let test = tests.test(&caller, app.id, identifier, arguments.timeout).await.or_missing(missing)?;
    let ProviderTest { channel, kind, result } = test;
    match result {
        Ok(proved) if arguments.options.json => {
            Ok(format!("{}\n", json!({"identifier": identifier, "passed": true, "proved": proved})))
        }
        Ok(proved) => Ok(format!("Provider {identifier} ({channel}/{kind}) passed: {proved}.\n")),
        Err(FailedTest { outcome, code, message, advice }) => {
            if arguments.options.json {
                print(&format!(
                    "{}\n",
                    json!({
                        "identifier": identifier, "passed": false, "outcome": outcome, "code": code,
                        "message": message, "advice": advice,
                    })
                ))?;
            }
            bail!(
                "provider {identifier} ({channel}/{kind}) did not pass: {code}: {message}\n  class   {outcome}\n  advice  {advice}"
            )
        }
    }
}
