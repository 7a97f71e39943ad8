use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;
use worker::outbound::read_at_most;

use crate::data_directory;
use crate::dev_file::DevFile;
use crate::listing::table;
use crate::smoke::{LONGEST_ANSWER, until};

const CALL_LIMIT: Duration = Duration::from_secs(10);
const ENDED_WITHIN: Duration = Duration::from_secs(15);

/// Send a notification to a user of the demo app of a running `tidings up`, and print what became of it.
///
/// The user gets an email address, a phone number, a browser and a phone, so that every channel is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0  every delivery has ended
  1  the send was refused, or deliveries have not ended in time
  2  the command line is not valid

Examples:
  tidings demo send
  tidings demo send --user bob --title 'A table is free' --message 'Tonight at eight'")]
pub(crate) struct Arguments {
    /// Identifier of the user
    #[arg(long, value_name = "USER", default_value = "ada")]
    user: String,
    #[arg(long, value_name = "TEXT", default_value = "Hello Ada")]
    title: String,
    #[arg(long, value_name = "TEXT", default_value = "Your parcel is on its way.")]
    message: String,
    /// Data directory of the running `tidings up`
    #[arg(long, value_name = "DIR", default_value = data_directory::DEFAULT)]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let dev = DevFile::read(&arguments.data_dir)?.with_context(|| {
        format!(
            "no `tidings up` runs on {}: start one, or name its data directory with --data-dir",
            arguments.data_dir.display()
        )
    })?;
    let backend = Backend { client: Client::builder().timeout(CALL_LIMIT).no_proxy().build()?, dev };
    backend.give_addresses(&arguments.user).await?;
    let send = json!({
        "notification": {"title": arguments.title, "message": arguments.message},
        "sendTo": {"recipients": [arguments.user]},
    });
    let sent = answer(backend.call(Method::POST, "/v3/notifications").json(&send)).await?;
    let id = sent["requestId"].as_str().context("the answer to the send has no requestId")?;
    let path = format!("/v3/requests/{id}");
    until(
        Instant::now() + ENDED_WITHIN,
        || backend.call(Method::GET, &path),
        |_, request| request["status"] == "completed",
    )
    .await
    .with_context(|| format!("the request {id} has not ended"))?;
    let deliveries = answer(backend.call(Method::GET, &format!("{path}/deliveries"))).await?;
    Ok(if arguments.json {
        format!("{}\n", json!({"requestId": id, "deliveries": deliveries["data"]}))
    } else {
        report(&backend.dev, &arguments.user, id, &deliveries["data"])
    })
}

fn report(dev: &DevFile, user: &str, id: &str, deliveries: &Value) -> String {
    let cell = |delivery: &Value, name: &str| delivery[name].as_str().unwrap_or("-").to_owned();
    let rows = deliveries.as_array().into_iter().flatten();
    let rows = rows.map(|delivery| {
        ["channel", "target", "provider", "status", "reason"].map(|name| match name {
            // Long enough for a person to recognise it.
            "target" => cell(delivery, name).chars().take(40).collect(),
            name => cell(delivery, name),
        })
    });
    let DevFile { shop, outbox, .. } = dev;
    format!(
        "Request {id}\n\n{}\n  Inbox of {user}:  {shop}/?user={user}\n  Outbox:  {outbox}\n",
        table(["CHANNEL", "TARGET", "PROVIDER", "STATUS", "REASON"], rows),
    )
}

struct Backend {
    client: Client,
    dev: DevFile,
}

impl Backend {
    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let DevFile { api, api_key, api_secret, header_prefix, .. } = &self.dev;
        self.client
            .request(method, format!("{api}{path}"))
            .header(format!("{header_prefix}-API-KEY"), api_key)
            .header(format!("{header_prefix}-API-SECRET"), api_secret)
    }

    /// Gives the user an email address, a phone number, a push token and a browser. The stand-in for the push service forgets its
    /// browsers when it stops, so the user gets a new one.
    async fn give_addresses(&self, user: &str) -> anyhow::Result<()> {
        let local: String = user.chars().filter(char::is_ascii_alphanumeric).collect();
        let profile = json!({
            "email": format!("{local}@example.com"), "phoneNumber": "+15005550010", "fcm": {"tokens": ["demo-phone"]},
        });
        let segment: String = url::form_urlencoded::byte_serialize(user.as_bytes()).collect();
        let segment = segment.replace('+', "%20");
        answer(self.call(Method::PUT, &format!("/v3/users/{segment}")).json(&profile)).await?;
        let browsers = format!("{}/subscriptions", self.dev.push_service);
        let browser = answer(self.client.post(browsers).json(&json!({}))).await?;
        let path = format!("/v3/devices/demo-browser/webPushSubscription?userIdentifier={segment}");
        answer(self.call(Method::POST, &path).json(&browser)).await?;
        Ok(())
    }
}

async fn answer(request: RequestBuilder) -> anyhow::Result<Value> {
    let response = request.send().await.context("cannot reach the running `tidings up`")?;
    let (status, url) = (response.status(), response.url().clone());
    let body = read_at_most(response, LONGEST_ANSWER).await.unwrap_or_default();
    if status == StatusCode::OK || status == StatusCode::CREATED || status == StatusCode::ACCEPTED {
        return serde_json::from_slice(&body).with_context(|| format!("the answer of {url} is not JSON"));
    }
    bail!("{url} answered {status}: {}", String::from_utf8_lossy(&body))
}
