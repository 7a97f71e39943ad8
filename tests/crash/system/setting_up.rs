//! What operators do before the first send: keys, tables, apps, providers.

use std::path::Path;
use std::thread;
use std::time::Duration;

use credentials::MasterKey;
use local_servers::{NatsServer, Postgres};
use serde::Deserialize;
use serde_json::Value;
use stand_ins::faults::Shares;
use stand_ins::webhook::WebhookReceiver;
use testkit::{Service, binary, eventually};

use super::Settings;
use super::files::Files;
use crate::command::tidings;
use crate::scene::App;

pub(crate) const PARTITIONS: u32 = 4;
/// Sends a second that one gateway takes from the largest app before they have to stand back.
const RATE_OF_LARGEST: &str = "transactional-rate=5";
const SOON: Duration = Duration::from_secs(30);

/// The parts have to come back to what a killed process held; with the usual times that would take minutes. Attempts are a
/// hundredth of the usual time apart; but the last three, which only a run of bad luck gets to, follow sooner, so that
/// even that ends while it is waited for.
///
/// A worker takes as few at once as it can finish well within so short a lease on a machine that does everything else too.
const IMPATIENT: [(&str, &str); 6] = [
    ("TIDINGS_DELIVERY__LEASE", "3s"),
    ("TIDINGS_DELIVERY__ACK_WAIT", "5s"),
    ("TIDINGS_DELIVERY__MAX_CONCURRENCY", "16"),
    ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,50ms,300ms,1200ms,6s,14s,14s,14s"),
    ("TIDINGS_WEBHOOKS__TIMEOUT", "2s"),
    ("TIDINGS_WEBHOOKS__RETRY_SCHEDULE", "50ms,300ms,1200ms,6s,18s,36s,72s,144s,216s,288s"),
];

/// The file of webhooks that were taken.
pub(super) const WEBHOOKS: &str = "webhooks.jsonl";
/// Of the calls of apps' backends. Whoever says "not so many" has its app's webhooks wait for a second, so that more of it
/// would leave no time to tell.
const BACKENDS: Shares = Shares {
    temporary: 0.02,
    busy: 0.0002,
    cut_before: 0.003,
    cut_after: 0.003,
    refused: 0.003,
    stall: 0.0005,
    ..Shares::NONE
};

/// How the stand-ins are reached.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Providers {
    pub(super) push_origin: String,
    providers: Vec<Value>,
}

/// The stand-ins of all providers, in a process of their own, which nobody strikes.
pub(super) async fn providers(settings: Settings, files: &Files) -> (Service, Providers) {
    let ready = files.path("providers.json");
    let accepted = files.path("accepted.jsonl");
    let seed = settings.seed.to_string();
    let arguments = [seed.as_str(), accepted.to_str().unwrap(), ready.to_str().unwrap()];
    let program = binary("faulty-providers");
    let service = Service::start_logged(&program, &arguments, &[], &files.log("providers")).unwrap();
    let text = eventually(SOON, "the providers listen", async || std::fs::read_to_string(&ready).ok());
    (service, serde_json::from_str(&text.await).unwrap())
}

/// The apps' own backends, which take webhooks, in this process: nobody strikes it.
pub(super) async fn backends(seed: u64, files: &Files) -> WebhookReceiver {
    let backends = WebhookReceiver::listed(&files.path(WEBHOOKS)).await.unwrap();
    backends.fail_by_chance(seed, BACKENDS);
    backends
}

/// What every service and `tidings` are told, with the servers themselves as addresses.
pub(super) fn environment(
    files: &Files,
    servers: (&Postgres, &NatsServer),
    providers: &Providers,
    public_url: &str,
) -> Vec<(String, String)> {
    let key_file = files.path("master.key");
    MasterKey::generate_file(&key_file).unwrap();
    let (postgres, nats) = servers;
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let mut environment = vec![
        ("TIDINGS_CONFIG", String::new()),
        ("TIDINGS_DATABASE__URL", postgres.url().to_owned()),
        // All processes together have to stay below what the server takes.
        ("TIDINGS_DATABASE__MAX_CONNECTIONS", "8".to_owned()),
        ("TIDINGS_NATS__URL", nats.url().to_owned()),
        ("TIDINGS_STREAMS__PARTITIONS", PARTITIONS.to_string()),
        ("TIDINGS_GATEWAY__PUBLIC_URL", public_url.to_owned()),
        ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0".to_owned()),
        ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true".to_owned()),
        ("TIDINGS_WEB_PUSH__HOSTS", providers.push_origin.clone()),
        ("TIDINGS_SECURITY__MASTER_KEY_FILE", path(&key_file)),
        (sabotage::CRASHES, path(&files.path("crashes"))),
    ];
    environment.extend(IMPATIENT.map(|(name, value)| (name, value.to_owned())));
    environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Makes the tables and the apps, each with a provider for every channel and an endpoint that is told everything. Half of
/// them have one provider of short messages, the other half the other.
pub(super) fn apps(
    number: usize,
    environment: &[(String, String)],
    providers: &Providers,
    backends: &WebhookReceiver,
) -> Vec<App> {
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    tidings(&environment, &["migrate"], "");
    let (apps, secrets): (Vec<App>, Vec<String>) = thread::scope(|scope| {
        let environment = &environment;
        let made = |number| {
            scope.spawn(move || {
                let app = app(environment, providers, number);
                let secret = endpoint(environment, &app, backends);
                (app, secret)
            })
        };
        let apps: Vec<_> = (1..=number).map(made).collect();
        apps.into_iter().map(|app| app.join().unwrap()).unzip()
    });
    backends.trust(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    apps
}

fn app(environment: &[(&str, &str)], providers: &Providers, number: usize) -> App {
    let identifier = format!("app-{number}");
    let created = tidings(environment, &["app", "create", &identifier, "--open", "--json"], "");
    let created: Value = serde_json::from_str(&created).unwrap();
    if number == 1 {
        tidings(environment, &["app", "set", &identifier, RATE_OF_LARGEST], "");
    }
    for provider in providers.providers.iter().filter_map(|provider| of_app(number, provider)) {
        tidings(environment, &["provider", "set", &identifier], &provider.to_string());
    }
    let text = |name: &str| created[name].as_str().unwrap().to_owned();
    App { id: text("id").parse().unwrap(), key: text("apiKey"), secret: text("apiSecret") }
}

/// The provider as an app has it. Most have one for short messages, which has to be called as if it could not tell calls
/// apart. A few have both, of which the first does, so that it may be asked again, and the other may not.
fn of_app(number: usize, provider: &Value) -> Option<Value> {
    let mut provider = provider.clone();
    match (provider["identifier"].as_str(), number % 4) {
        (Some("sms-http"), 1 | 3) | (Some("twilio"), 2) => None,
        (Some("sms-http"), 0) => {
            provider["settings"]["idempotent"] = true.into();
            provider["priority"] = 1.into();
            Some(provider)
        }
        (Some("twilio"), 0) => {
            provider["priority"] = 2.into();
            Some(provider)
        }
        _ => Some(provider),
    }
}

/// Sets the app's endpoint, whose path is the app's id, and returns its secret.
fn endpoint(environment: &[(&str, &str)], app: &App, backends: &WebhookReceiver) -> String {
    let (id, url) = (app.id.to_string(), backends.url(&format!("/{}", app.id)));
    let set = tidings(environment, &["webhook", "set", &id, &url, "--json"], "");
    let set: Value = serde_json::from_str(&set).unwrap();
    set["secret"].as_str().unwrap().to_owned()
}

#[cfg(test)]
mod tests {
    use super::IMPATIENT;
    use crate::quiet;

    #[test]
    fn all_attempts_of_a_delivery_fit_in_the_time_of_quiet() {
        let (_, schedule) =
            IMPATIENT.iter().find(|(name, _)| *name == "TIDINGS_DELIVERY__RETRY_SCHEDULE").unwrap();
        let delays = schedule.split(',').map(|delay| humantime::parse_duration(delay).unwrap());
        // Chance lengthens them by a fifth.
        assert!(delays.sum::<std::time::Duration>() * 6 / 5 < quiet::WITHIN);
    }
}
