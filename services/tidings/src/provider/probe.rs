use std::time::Duration;

use anyhow::bail;
use domain::{Answer, Outcome};
use operations::providers;
use serde_json::json;
use service_kit::{clock, install_crypto_provider};
use store::control::provider::StoredProvider;
use tokio::time::timeout;
use worker::{Probe, Provider};

use super::{kinds, unknown};
use crate::options::Options;
use crate::print::print;
use crate::refused::OrMissing as _;

const LONGEST: Duration = Duration::from_secs(300);

/// Call a provider with the stored credentials, even if it is disabled, and print the result. Nothing is sent to a person.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 if the provider did not pass.

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
    let identifier = &arguments.identifier;
    let stored =
        providers::stored(&control_plane.operations, &control_plane.caller, app.id, identifier).await;
    let StoredProvider { channel, row } = stored.or_missing(|| unknown(&app.name, identifier))?;
    let kind = row.kind.clone();
    let master_key = control_plane.master_key().await?;
    let provider = Provider::open(&master_key, app.id, row)?;
    install_crypto_provider();
    let probe = Probe {
        provider: &provider,
        outbound: control_plane.outbound,
        now: clock::now(),
        installation: Some((&control_plane.store, &master_key)),
    };
    let result = match kinds::find(channel, &kind) {
        Some(known) => timeout(arguments.timeout, known.probe(&probe)).await.unwrap_or_else(|_| {
            let message = format!("no answer within {}", humantime::format_duration(arguments.timeout));
            Err(Answer::new(Outcome::RETRY, "timeout", message))
        }),
        None => {
            let message = format!("this release knows no providers of {channel}/{kind}");
            Err(Answer::new(Outcome::PauseProvider, "settings", message))
        }
    };
    match result {
        Ok(proved) if arguments.options.json => {
            Ok(format!("{}\n", json!({"identifier": identifier, "passed": true, "proved": proved})))
        }
        Ok(proved) => Ok(format!("Provider {identifier} ({channel}/{kind}) passed: {proved}.\n")),
        Err(answer) => {
            let Answer { code, message, outcome, .. } = answer;
            let advice = advice(&outcome, &code);
            if arguments.options.json {
                let outcome = outcome.name();
                print(&format!(
                    "{}\n",
                    json!({
                        "identifier": identifier, "passed": false, "outcome": outcome, "code": code,
                        "message": message, "advice": advice,
                    })
                ))?;
            }
            bail!(
                "provider {identifier} ({channel}/{kind}) did not pass: {code}: {message}\n  class   {}\n  advice  {advice}",
                outcome.name()
            )
        }
    }
}

fn advice(outcome: &Outcome, code: &str) -> &'static str {
    match (outcome, code) {
        (_, "not_public") => {
            "the host has a private address: set outbound.allow_private if this host is yours"
        }
        (_, "insecure_url" | "insecure_login") => {
            "use a URL or a `security` setting with TLS; set outbound.allow_private only for your own hosts"
        }
        (_, "settings") => "correct the settings with `tidings provider set`",
        (Outcome::PauseProvider, _) => {
            "check the credentials and the account; until they are valid, deliveries fail over to the app's next provider"
        }
        (Outcome::Retry { .. } | Outcome::Unknown | Outcome::Repeat { .. }, _) => {
            "check host, port and network, or try again later; until the provider answers, deliveries are retried"
        }
        (Outcome::Failed | Outcome::TargetGone(_) | Outcome::Sent { .. }, _) => {
            "the provider was reached but refused the call: check the settings"
        }
    }
}
