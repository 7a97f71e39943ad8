use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use credentials::secrets::random_token;
use operations::apps::creation::{self, PublicAccess};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use worker::outbound::read_at_most;

use crate::control_plane::ControlPlane;
use crate::options::Options;

const APP: &str = "tidings-smoke";
const USER: &str = "smoke";
/// An earlier run may still be using the previous API secret.
const GRACE: Duration = Duration::from_secs(600);
const CALL_LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);
pub(crate) const LONGEST_ANSWER: usize = 1024 * 1024;

/// Send a notification through a running installation, and read it from the inbox.
///
/// Uses its own app (tidings-smoke), which it creates if it does not exist, and erases the recipient afterwards. No
/// provider is called.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes:
  0  the notification is in the inbox
  1  the notification is not in the inbox in time, or a server cannot be reached
  2  the command line or the configuration is not valid

Example:
  tidings smoke --api http://127.0.0.1:8080")]
pub(crate) struct Arguments {
    /// Origin of the API
    #[arg(long, value_name = "URL")]
    api: Url,
    /// Time within which the notification must be in the inbox, such as 30s
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let backend = Backend::open(arguments).await?;
    let started = Instant::now();
    let end = started + arguments.timeout;
    let title = format!("Smoke test {}", random_token("", 8)?);
    let send = json!({
        "notification": {"title": title},
        "sendTo": {"recipients": [{"identifier": USER}]},
        "override": {"channels": ["inApp"]},
    });
    let accepted = until(
        end,
        || backend.call(Method::POST, "/v3/notifications").json(&send),
        |status, _| status == StatusCode::ACCEPTED,
    )
    .await
    .context("the gateway did not accept the send")?;
    let path = format!("/v3/notifications?userIdentifier={USER}");
    until(
        end,
        || backend.call(Method::GET, &path),
        |_, body| {
            body["data"]
                .as_array()
                .is_some_and(|items| items.iter().any(|item| item["title"] == title.as_str()))
        },
    )
    .await
    .context("the notification did not appear in the inbox")?;
    let took = started.elapsed();
    let erased = backend.call(Method::DELETE, &format!("/v3/users/{USER}")).send().await?;
    if !erased.status().is_success() {
        bail!("cannot erase user {USER} of app {APP}: {}", erased.status());
    }
    let request = &accepted["requestId"];
    let milliseconds = took.as_millis();
    let report = json!({"requestId": request, "milliseconds": u64::try_from(milliseconds)?});
    Ok(arguments
        .options
        .report(&report, format!("The send was accepted and reached the inbox within {milliseconds} ms.\n")))
}

struct Backend {
    client: Client,
    api: Url,
    header_prefix: String,
    api_key: String,
    api_secret: SecretString,
}

impl Backend {
    async fn open(arguments: &Arguments) -> anyhow::Result<Backend> {
        let ControlPlane { operations, caller, .. } = arguments.options.open_database().await?;
        let (_, api_key, api_secret) =
            creation::create_or_renew(&operations, &caller, APP, PublicAccess::Closed, GRACE).await?;
        let (config, _) = arguments.options.place.installation.configuration()?;
        let header_prefix = config.header_prefixes.into_iter().next().unwrap_or_default();
        let client = Client::builder().timeout(CALL_LIMIT).no_proxy().build()?;
        Ok(Backend { client, api: arguments.api.clone(), header_prefix, api_key, api_secret })
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.api.as_str().trim_end_matches('/'));
        self.client
            .request(method, url)
            .header(format!("{}-API-KEY", self.header_prefix), &self.api_key)
            .header(format!("{}-API-SECRET", self.header_prefix), self.api_secret.expose_secret())
    }
}

/// A single call is not enough, because a gateway knows a new app only after a moment, and a server may be unavailable.
pub(crate) async fn until(
    end: Instant,
    call: impl Fn() -> RequestBuilder,
    is_wanted: impl Fn(StatusCode, &Value) -> bool,
) -> anyhow::Result<Value> {
    loop {
        let last = match call().send().await {
            Ok(answer) => {
                let status = answer.status();
                let body = read_at_most(answer, LONGEST_ANSWER).await.unwrap_or_default();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                if is_wanted(status, &body) {
                    return Ok(body);
                }
                format!("{status}: {}", body["message"].as_str().unwrap_or("not the expected answer"))
            }
            Err(error) => format!("{:#}", anyhow::Error::from(error)),
        };
        if Instant::now() + PAUSE >= end {
            bail!("timed out; last answer: {last}");
        }
        sleep(PAUSE).await;
    }
}
