use std::time::Duration;

use anyhow::bail;
use domain::Channel;
use operations::providers::{self, FailedTest, ProviderTest, ProviderTests};
use serde::Deserialize;
use serde_json::json;

use super::unknown;
use crate::options::Options;
use crate::place::Place;
use crate::print::print;
use crate::refused::OrMissing as _;

const LONGEST: Duration = Duration::from_secs(300);
/// Timeout of a call that a console makes, in seconds: its own calls end within a minute.
const LONGEST_CALL: u64 = 45;

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
    /// Timeout of the call, at most 5 minutes; at most 45 seconds with --url
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

/// Result of a test.
#[derive(Deserialize)]
struct Tested {
    channel: Channel,
    kind: String,
    proved: Option<String>,
    failure: Option<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    outcome: String,
    code: String,
    message: String,
    advice: String,
}

impl From<ProviderTest> for Tested {
    fn from(test: ProviderTest) -> Tested {
        let failed = |FailedTest { outcome, code, message, advice }| Failed {
            outcome: outcome.to_owned(),
            code,
            message,
            advice,
        };
        let (proved, failure) = match test.result {
            Ok(proved) => (Some(proved), None),
            Err(failure) => (None, Some(failed(failure))),
        };
        Tested { channel: test.channel, kind: test.kind, proved, failure }
    }
}

async fn test(arguments: &Arguments) -> anyhow::Result<Tested> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let (identifier, timeout) = (&arguments.identifier, arguments.timeout);
    let missing = || unknown(&app.name, identifier);
    let database = match place {
        Place::Database(database) => database,
        Place::Console(api) => {
            let body = json!({"timeoutSeconds": timeout.as_secs().clamp(1, LONGEST_CALL)});
            let tested = api.post(&[&"apps", &app.id, &"providers", identifier, &"test"], &body).await;
            return tested.or_missing(missing);
        }
    };
    let (operations, caller) = (database.operations, database.caller);
    // An unknown provider is reported without the log.
    providers::find(&operations, &caller, app.id, identifier).await.or_missing(missing)?;
    let log = arguments.options.place.installation.log().await?;
    let tests = ProviderTests::new(operations, log);
    Ok(tests.test(&caller, app.id, identifier, timeout).await.or_missing(missing)?.into())
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let identifier = &arguments.identifier;
    let Tested { channel, kind, proved, failure } = test(arguments).await?;
    let Some(Failed { outcome, code, message, advice }) = failure else {
        let proved = proved.unwrap_or_default();
        let report = json!({"identifier": identifier, "passed": true, "proved": proved});
        let text = format!("Provider {identifier} ({channel}/{kind}) passed: {proved}.\n");
        return Ok(arguments.options.report(&report, text));
    };
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
